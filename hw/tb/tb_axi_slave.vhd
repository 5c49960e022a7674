-- SPDX-License-Identifier: MIT
-- axi_slave alone, before a processor that does what axi_driver never does: it sends the next access while it has not
-- taken the last one's answer, and reads without an end while it wants to write.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library vunit_lib;
  context vunit_lib.vunit_context;
library work;
  use work.coffer_hw.all;

entity tb_axi_slave is
  generic (
    runner_cfg : string
  );
end entity tb_axi_slave;

architecture bench of tb_axi_slave is

  signal clk     : std_ulogic := '0';
  signal rst     : std_ulogic := '1';
  signal awvalid : std_ulogic := '0';
  signal wvalid  : std_ulogic := '0';
  signal arvalid : std_ulogic := '0';
  signal bready  : std_ulogic := '0';
  signal rready  : std_ulogic := '0';
  signal awaddr  : std_ulogic_vector(7 downto 0) := x"00";
  signal araddr  : std_ulogic_vector(7 downto 0) := x"00";

  signal awready, wready, arready, bvalid, rvalid : std_ulogic;
  signal bresp, rresp                             : std_ulogic_vector(1 downto 0);
  signal rdata                                    : word_t;

  -- The registers behind it: all addresses from 80 on are errors, and a read gives its address.
  signal sel, we, ack, err : std_ulogic;
  signal address           : std_ulogic_vector(7 downto 0);
  signal reads, writes     : natural := 0;

begin

  clk <= not clk after 5 ns;

  slave : entity work.axi_slave
    port map (
      clk_i         => clk,
      rst_i         => rst,
      axi_awvalid_i => awvalid,
      axi_awready_o => awready,
      axi_awaddr_i  => awaddr,
      axi_wvalid_i  => wvalid,
      axi_wready_o  => wready,
      axi_wdata_i   => x"00000000",
      axi_wstrb_i   => "1111",
      axi_bvalid_o  => bvalid,
      axi_bready_i  => bready,
      axi_bresp_o   => bresp,
      axi_arvalid_i => arvalid,
      axi_arready_o => arready,
      axi_araddr_i  => araddr,
      axi_rvalid_o  => rvalid,
      axi_rready_i  => rready,
      axi_rdata_o   => rdata,
      axi_rresp_o   => rresp,
      sel_o         => sel,
      we_o          => we,
      addr_o        => address,
      strobes_o     => open,
      wdata_o       => open,
      ack_i         => ack,
      err_i         => err,
      rdata_i       => x"000000" & address
    );

  err <= address(7);

  answer : process (clk) is
  begin
    if rising_edge(clk) then
      ack <= sel and not ack and not rst;
      if ack = '1' and we = '1' then
        writes <= writes + 1;
      elsif ack = '1' then
        reads <= reads + 1;
      end if;
    end if;
  end process answer;

  main : process is

    procedure send_write (where : std_ulogic_vector(7 downto 0)) is
    begin
      awvalid <= '1';
      wvalid <= '1';
      awaddr <= where;
      wait until rising_edge(clk) and awready = '1' and wready = '1' for 1 us;
      check_equal(awready and wready, '1', "the write is not taken");
      awvalid <= '0';
      wvalid <= '0';
    end procedure send_write;

    procedure send_read (where : std_ulogic_vector(7 downto 0)) is
    begin
      arvalid <= '1';
      araddr <= where;
      wait until rising_edge(clk) and arready = '1' for 1 us;
      check_equal(arready, '1', "the read is not taken");
      arvalid <= '0';
    end procedure send_read;

    procedure pause (cycles : positive) is
    begin
      for i in 1 to cycles loop
        wait until rising_edge(clk);
      end loop;
    end procedure pause;

    procedure take_write (response : std_ulogic_vector(1 downto 0)) is
    begin
      bready <= '1';
      wait until rising_edge(clk) and bvalid = '1' for 1 us;
      check_equal(bvalid, '1', "an answer of a write is lost");
      check_equal(bresp, response, "of the write");
      bready <= '0';
    end procedure take_write;

    procedure take_read (response : std_ulogic_vector(1 downto 0); data : word_t) is
    begin
      rready <= '1';
      wait until rising_edge(clk) and rvalid = '1' for 1 us;
      check_equal(rvalid, '1', "an answer of a read is lost");
      check_equal(rresp, response, "of the read");
      check_equal(rdata, data, "of the read");
      rready <= '0';
    end procedure take_read;

  begin
    test_runner_setup(runner, runner_cfg);
    while test_suite loop
      rst <= '1';
      pause(3);
      rst <= '0';
      if run("each access has its own answer, though none is taken") then
        send_write(x"80");
        send_write(x"04");
        pause(20);
        check_equal(writes, 1, "writes that are done before the first one's answer is taken");
        take_write("10");
        take_write("00");
        pause(20);
        check_equal(bvalid, '0', "a third answer");
        send_read(x"84");
        send_read(x"08");
        pause(20);
        check_equal(reads, 1, "reads that are done before the first one's answer is taken");
        take_read("10", x"00000084");
        take_read("00", x"00000008");
        pause(20);
        check_equal(rvalid, '0', "a third answer");
      elsif run("reads without an end do not keep a write, nor writes a read") then
        -- One is always waiting: the other's turn comes behind one at most.
        araddr <= x"04";
        arvalid <= '1';
        rready <= '1';
        pause(20);
        check_equal(reads > 2, true, "reads go on");
        send_write(x"08");
        bready <= '1';
        wait until rising_edge(clk) and bvalid = '1' for 200 ns;
        check_equal(bvalid, '1', "the write has not had its turn");
        arvalid <= '0';
        pause(20);
        awaddr <= x"08";
        awvalid <= '1';
        wvalid <= '1';
        pause(20);
        rready <= '1';
        send_read(x"0C");
        wait until rising_edge(clk) and rvalid = '1' for 200 ns;
        check_equal(rvalid, '1', "the read has not had its turn");
        awvalid <= '0';
        wvalid <= '0';
      end if;
    end loop;
    test_runner_cleanup(runner);
  end process main;

  test_runner_watchdog(runner, 1 ms);

end architecture bench;
