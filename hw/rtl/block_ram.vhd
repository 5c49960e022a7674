-- SPDX-License-Identifier: MIT
-- Memory of a power of two of words with one port: an answer in the cycle after the request. It synthesises to block
-- RAM. A transfer is done in the cycle in which req_i and ack_o are both set.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity block_ram is
  generic (
    bytes_log2_g : natural := 12
  );
  port (
    clk_i   : in    std_ulogic;
    rst_i   : in    std_ulogic;
    req_i   : in    std_ulogic;
    we_i    : in    std_ulogic;
    addr_i  : in    word_t;  -- a byte address; the lowest two bits and those beyond the memory do not count
    wdata_i : in    word_t;
    ack_o   : out   std_ulogic;
    rdata_o : out   word_t
  );
end entity block_ram;

architecture rtl of block_ram is

  signal memory : words_t(0 to 2 ** (bytes_log2_g - 2) - 1);
  signal ack    : std_ulogic;

begin

  ack_o <= ack;

  serve : process (clk_i) is

    variable word : natural range 0 to 2 ** (bytes_log2_g - 2) - 1;

  begin
    if rising_edge(clk_i) then
      ack <= '0';
      if req_i = '1' and ack = '0' then
        word := to_integer(unsigned(addr_i(bytes_log2_g - 1 downto 2)));
        if we_i = '1' then
          memory(word) <= wdata_i;
        end if;
        rdata_o <= memory(word);
        ack <= '1';
      end if;
      if rst_i = '1' then
        ack <= '0';
      end if;
    end if;
  end process serve;

end architecture rtl;
