-- SPDX-License-Identifier: MIT
-- Memory for benches with the port of block_ram and as many cycles a transfer as one wants.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;
  use work.sparse_memory.all;

entity plain_memory is
  generic (
    read_cycles_g  : positive := 1;
    write_cycles_g : positive := 1;
    size_log2_g    : positive := 26
  );
  port (
    clk_i   : in    std_ulogic;
    req_i   : in    std_ulogic;
    we_i    : in    std_ulogic;
    addr_i  : in    word_t;
    wdata_i : in    word_t;
    ack_o   : out   std_ulogic := '0';
    rdata_o : out   word_t
  );
end entity plain_memory;

architecture model of plain_memory is

begin

  serve : process (clk_i) is

    variable memory  : memory_t;
    variable left    : natural := 0;
    variable address : natural;

  begin
    if rising_edge(clk_i) then
      if req_i = '1' and ack_o = '0' and left = 0 then
        left := read_cycles_g when we_i = '0' else write_cycles_g;
      end if;
      ack_o   <= '0';
      rdata_o <= (others => 'X');
      if left /= 0 then
        assert req_i = '1'
          report "plain_memory: a request was taken back before its answer"
          severity failure;
        left := left - 1;
        if left = 0 then
          assert shift_right(unsigned(addr_i), size_log2_g) = 0
            report "plain_memory: no such address: " & to_hstring(addr_i)
            severity failure;
          address := to_integer(unsigned(addr_i));
          assert address mod 4 = 0
            report "plain_memory: not the address of a word: " & to_hstring(addr_i)
            severity failure;
          ack_o <= '1';
          if we_i = '1' then
            memory.write_word(address, wdata_i);
          else
            rdata_o <= memory.read_word(address);
          end if;
        end if;
      end if;
    end if;
  end process serve;

end architecture model;
