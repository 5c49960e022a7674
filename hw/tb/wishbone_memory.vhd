-- SPDX-License-Identifier: MIT
-- A memory on Wishbone B4 for benches, classic or pipelined, which keeps its master waiting at random. It fails if the
-- master takes back or changes what it asks, leaves its window, or writes parts of words. While deny_i is one, every
-- transfer ends with an error and does nothing.
--
-- look_i: the processor's own load or store, which does not come over this bus; done in the next cycle.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;
  use work.window_memory.all;

entity wishbone_memory is
  generic (
    pipelined_g : boolean := false
  );
  port (
    clk_i      : in    std_ulogic;
    deny_i     : in    std_ulogic;
    base_i     : in    word_t;   -- the window that the master may use
    bytes_i    : in    natural;
    look_i       : in    std_ulogic := '0';
    look_we_i    : in    std_ulogic := '0';
    look_addr_i  : in    word_t     := (others => '0');
    look_wdata_i : in    word_t     := (others => '0');
    look_rdata_o : out   word_t;
    wb_cyc_i   : in    std_ulogic;
    wb_stb_i   : in    std_ulogic;
    wb_we_i    : in    std_ulogic;
    wb_adr_i   : in    word_t;
    wb_sel_i   : in    std_ulogic_vector(3 downto 0);
    wb_dat_i   : in    word_t;
    wb_ack_o   : out   std_ulogic := '0';
    wb_err_o   : out   std_ulogic := '0';
    wb_stall_o : out   std_ulogic := '0';
    wb_dat_o   : out   word_t
  );
end entity wishbone_memory;

architecture model of wishbone_memory is

begin

  serve : process is

    variable memory   : window_memory_t;
    variable has      : boolean := false;  -- a transfer has begun
    variable write    : std_ulogic;
    variable address  : word_t;
    variable data     : word_t;
    variable answered : boolean := false;  -- in the cycle that is over

    procedure begin_transfer is
    begin
      has := true;
      write := wb_we_i;
      address := wb_adr_i;
      data := wb_dat_i;
      assert wb_sel_i = "1111"
        report "wishbone_memory: a part of a word"
        severity failure;
    end procedure begin_transfer;

  begin
    wait until rising_edge(clk_i);
    memory.move("wishbone_memory", base_i, bytes_i);
    answered := wb_ack_o = '1' or wb_err_o = '1';
    wb_ack_o <= '0';
    wb_err_o <= '0';
    wb_dat_o <= (others => 'X');
    assert wb_stb_i /= '1' or wb_cyc_i = '1'
      report "wishbone_memory: a strobe outside of a cycle"
      severity failure;
    assert not has or wb_cyc_i = '1'
      report "wishbone_memory: a transfer was given up"
      severity failure;
    if pipelined_g then
      if wb_stb_i = '1' and wb_stall_o = '0' then
        assert not has
          report "wishbone_memory: asked twice"
          severity failure;
        begin_transfer;
      end if;
    elsif wb_stb_i = '1' and not answered then
      if not has then
        begin_transfer;
      end if;
      assert wb_we_i = write and wb_adr_i = address and (wb_dat_i = data or write = '0')
        report "wishbone_memory: the request has changed"
        severity failure;
    else
      assert not has
        report "wishbone_memory: the strobe did not stay"
        severity failure;
    end if;
    if has and memory.chance then
      has := false;
      if deny_i = '1' then
        wb_err_o <= '1';
      else
        wb_ack_o <= '1';
        if write = '1' then
          memory.write_word(address, data);
        else
          wb_dat_o <= memory.read_word(address);
        end if;
      end if;
    end if;
    wb_stall_o <= '1' when has or memory.chance else '0';

    if look_i = '1' then
      if look_we_i = '1' then
        memory.write_word(look_addr_i, look_wdata_i);
      else
        look_rdata_o <= memory.read_word(look_addr_i);
      end if;
    end if;
  end process serve;

end architecture model;
