-- SPDX-License-Identifier: MIT
-- A processor's side of Wishbone B4 for benches: one access at a time, classic or pipelined. It fails if the slave
-- answers twice, with both signals, or what was not asked.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity wishbone_driver is
  generic (
    pipelined_g : boolean := false
  );
  port (
    clk_i      : in    std_ulogic;
    -- A command begins with a one for one cycle, and all else stays till it is done.
    go_i       : in    std_ulogic;
    we_i       : in    std_ulogic;
    addr_i     : in    std_ulogic_vector(7 downto 0);
    strobes_i  : in    std_ulogic_vector(3 downto 0);
    wdata_i    : in    word_t;
    pause_i    : in    natural;  -- cycles between the bus's cycle and the strobe
    give_up_i  : in    natural;  -- cycles after which the access is given up; 0: never
    done_o     : out   std_ulogic := '0';
    err_o      : out   std_ulogic;
    rdata_o    : out   word_t;
    -- The bus.
    wb_cyc_o   : out   std_ulogic := '0';
    wb_stb_o   : out   std_ulogic := '0';
    wb_we_o    : out   std_ulogic;
    wb_adr_o   : out   std_ulogic_vector(7 downto 0);
    wb_sel_o   : out   std_ulogic_vector(3 downto 0);
    wb_dat_o   : out   word_t;
    wb_ack_i   : in    std_ulogic;
    wb_err_i   : in    std_ulogic;
    wb_stall_i : in    std_ulogic;
    wb_dat_i   : in    word_t
  );
end entity wishbone_driver;

architecture model of wishbone_driver is

begin

  access_bus : process is

    variable cycles : natural;
    variable write  : std_ulogic;

    procedure let_go is
    begin
      wb_stb_o <= '0';
      wb_we_o <= 'X';
      wb_adr_o <= (others => 'X');
      wb_sel_o <= (others => 'X');
      wb_dat_o <= (others => 'X');
    end procedure let_go;

  begin
    wait until rising_edge(clk_i) and go_i = '1';
    write := we_i;
    wb_cyc_o <= '1';
    for i in 1 to pause_i loop
      wait until rising_edge(clk_i);
      assert wb_ack_i = '0' and wb_err_i = '0'
        report "wishbone_driver: an answer to nothing"
        severity failure;
    end loop;
    wb_stb_o <= '1';
    wb_we_o <= write;
    wb_adr_o <= addr_i;
    wb_sel_o <= strobes_i;
    wb_dat_o <= wdata_i;
    cycles := 0;
    loop
      wait until rising_edge(clk_i);
      cycles := cycles + 1;
      exit when wb_ack_i = '1' or wb_err_i = '1' or cycles = give_up_i;
      if pipelined_g and wb_stall_i = '0' then
        let_go;
      end if;
    end loop;
    assert not (wb_ack_i = '1' and wb_err_i = '1')
      report "wishbone_driver: an answer and an error at once"
      severity failure;
    err_o <= wb_err_i;
    rdata_o <= wb_dat_i;
    done_o <= '1';
    let_go;
    wb_cyc_o <= '0';
    wait until rising_edge(clk_i);
    done_o <= '0';
    assert wb_ack_i = '0' and wb_err_i = '0'
      report "wishbone_driver: a second answer"
      severity failure;
  end process access_bus;

end architecture model;
