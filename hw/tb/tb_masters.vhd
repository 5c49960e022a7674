-- SPDX-License-Identifier: MIT
-- vunit: run_all_in_same_sim
-- The buses' masters alone, AXI4-Lite and Wishbone side by side, with an allocator that never stops asking: while they
-- are held nothing begins, what has begun ends, and only then are they still. A heap is closed so.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library vunit_lib;
  context vunit_lib.vunit_context;
library work;
  use work.coffer_hw.all;

entity tb_masters is
  generic (
    runner_cfg : string
  );
end entity tb_masters;

architecture bench of tb_masters is

  signal clk    : std_ulogic := '0';
  signal rst    : std_ulogic := '1';
  signal hold   : std_ulogic := '0';
  signal we     : std_ulogic := '0';
  signal answer : std_ulogic := '0';  -- of the memories, to whatever is under way

  -- 0: AXI4-Lite; 1, 2: Wishbone, classic and pipelined.
  signal still, ack, busy          : std_ulogic_vector(0 to 2);
  signal awvalid, wvalid, arvalid  : std_ulogic;
  signal bready, rready            : std_ulogic;

begin

  clk <= not clk after 5 ns;

  -- The answer may only come when all of the request has been taken, which it is at once.
  busy(0) <= awvalid or wvalid or arvalid or bready or rready;

  axi : entity work.axi_master
    port map (
      clk_i         => clk,
      rst_i         => rst,
      base_i        => x"00000000",
      hold_i        => hold,
      still_o       => still(0),
      fault_o       => open,
      req_i         => '1',
      we_i          => we,
      addr_i        => x"00000010",
      wdata_i       => x"00000000",
      ack_o         => ack(0),
      rdata_o       => open,
      axi_awvalid_o => awvalid,
      axi_awready_i => '1',
      axi_awaddr_o  => open,
      axi_awprot_o  => open,
      axi_wvalid_o  => wvalid,
      axi_wready_i  => '1',
      axi_wdata_o   => open,
      axi_wstrb_o   => open,
      axi_bvalid_i  => answer and bready and not awvalid and not wvalid,
      axi_bready_o  => bready,
      axi_bresp_i   => "00",
      axi_arvalid_o => arvalid,
      axi_arready_i => '1',
      axi_araddr_o  => open,
      axi_arprot_o  => open,
      axi_rvalid_i  => answer and rready and not arvalid,
      axi_rready_o  => rready,
      axi_rdata_i   => x"00000000",
      axi_rresp_i   => "00"
    );

  make_wishbone : for i in 1 to 2 generate

    wishbone : entity work.wishbone_master
      generic map (
        pipelined_g => i = 2
      )
      port map (
        clk_i      => clk,
        rst_i      => rst,
        base_i     => x"00000000",
        hold_i     => hold,
        still_o    => still(i),
        fault_o    => open,
        req_i      => '1',
        we_i       => we,
        addr_i     => x"00000010",
        wdata_i    => x"00000000",
        ack_o      => ack(i),
        rdata_o    => open,
        wb_cyc_o   => busy(i),
        wb_stb_o   => open,
        wb_we_o    => open,
        wb_adr_o   => open,
        wb_sel_o   => open,
        wb_dat_o   => open,
        wb_ack_i   => answer and busy(i),
        wb_err_i   => '0',
        wb_stall_i => '0',
        wb_dat_i   => x"00000000"
      );

  end generate make_wishbone;

  main : process is

    procedure pause (cycles : positive) is
    begin
      for i in 1 to cycles loop
        wait until rising_edge(clk);
      end loop;
    end procedure pause;

    variable acks : natural;

  begin
    test_runner_setup(runner, runner_cfg);
    while test_suite loop
      rst <= '1';
      hold <= '1';
      answer <= '0';
      pause(3);
      rst <= '0';
      if run("nothing begins while a master is held") then
        for write in std_ulogic range '0' to '1' loop
          we <= write;
          for i in 1 to 20 loop
            pause(1);
            check_equal(busy, std_ulogic_vector'("000"), "a transfer has begun");
            check_equal(still, std_ulogic_vector'("111"), "there is none");
          end loop;
        end loop;
      elsif run("what has begun ends") then
        for write in std_ulogic range '0' to '1' loop
          we <= write;
          hold <= '0';
          pause(5);
          check_equal(busy, std_ulogic_vector'("111"), "each has begun");
          hold <= '1';
          for i in 1 to 10 loop
            pause(1);
            check_equal(still, std_ulogic_vector'("000"), "it is under way");
          end loop;
          answer <= '1';
          acks := 0;
          for i in 1 to 20 loop
            pause(1);
            for k in ack'range loop
              if ack(k) = '1' then
                acks := acks + 1;
              end if;
            end loop;
          end loop;
          answer <= '0';
          check_equal(acks, 3, "each has one answer");
          check_equal(busy, std_ulogic_vector'("000"), "none has begun another");
          check_equal(still, std_ulogic_vector'("111"), "all are still");
        end loop;
      end if;
    end loop;
    test_runner_cleanup(runner);
  end process main;

  test_runner_watchdog(runner, 1 ms);

end architecture bench;
