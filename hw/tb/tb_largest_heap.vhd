-- SPDX-License-Identifier: MIT
-- vunit: run_all_in_same_sim
-- ohebs with the thesis's 28 indices, of blocks of 16 bytes to one of 2 GiB: the largest block whole, its halves, and
-- cuts from top to bottom.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library vunit_lib;
  context vunit_lib.vunit_context;
library work;
  use work.coffer_hw.all;

entity tb_largest_heap is
  generic (
    runner_cfg : string;
    shared_g   : boolean := false
  );
end entity tb_largest_heap;

architecture bench of tb_largest_heap is

  signal clk    : std_ulogic := '0';
  signal rst    : std_ulogic := '1';
  signal op     : opcode_t   := op_none_c;
  signal data   : word_t     := (others => '0');
  signal ready  : std_ulogic;
  signal done   : std_ulogic;
  signal status : status_t;
  signal result : word_t;
  signal req    : std_ulogic;
  signal we     : std_ulogic;
  signal addr   : word_t;
  signal wdata  : word_t;
  signal ack    : std_ulogic;
  signal rdata  : word_t;

begin

  clk <= not clk after 2500 ps;

  unit : entity work.ohebs
    generic map (
      heap_log2_g => 31,
      recombine_g => true,
      shared_g    => shared_g
    )
    port map (
      clk_i       => clk,
      rst_i       => rst,
      op_i        => op,
      data_i      => data,
      wdata_i     => (others => '0'),
      ready_o     => ready,
      done_o      => done,
      status_o    => status,
      result_o    => result,
      late_o      => open,
      phase_o     => open,
      how_o       => open,
      mem_req_o   => req,
      mem_we_o    => we,
      mem_addr_o  => addr,
      mem_wdata_o => wdata,
      mem_ack_i   => ack,
      mem_rdata_i => rdata
    );

  memory : entity work.plain_memory
    generic map (
      size_log2_g => 31
    )
    port map (
      clk_i   => clk,
      req_i   => req,
      we_i    => we,
      addr_i  => addr,
      wdata_i => wdata,
      ack_o   => ack,
      rdata_o => rdata
    );

  main : process is

    procedure call (what : opcode_t; argument : word_t; expected : status_t; answer : word_t := nothing_c) is
      variable answered : boolean := false;
    begin
      op <= what;
      data <= argument;
      wait until rising_edge(clk);
      op <= op_none_c;
      loop
        wait until rising_edge(clk);
        if done = '1' then
          answered := true;
          check_equal(status, expected, "status");
          check_equal(result, answer, "answer");
        end if;
        exit when answered and ready = '1';
      end loop;
    end procedure call;

    procedure alloc (bytes : word_t; answer : word_t) is
    begin
      call(op_alloc_c, bytes, status_ok_c, answer);
    end procedure alloc;

    procedure free (address : word_t) is
    begin
      call(op_free_c, address, status_ok_c);
    end procedure free;

  begin
    test_runner_setup(runner, runner_cfg);
    while test_suite loop
      wait until rising_edge(clk);
      rst <= '0';
      wait until rising_edge(clk);
      call(op_init_c, x"80000000", status_ok_c);
      if run("one block, and its halves") then
        call(op_alloc_c, x"7ffffffd", status_full_c);
        alloc(x"7ffffffc", x"00000004");
        call(op_alloc_c, x"00000001", status_full_c);
        free(x"00000004");
        alloc(x"3ffffffc", x"00000004");
        alloc(x"3ffffffc", x"40000004");
        call(op_alloc_c, x"00000001", status_full_c);
        call(op_free_c, x"80000004", status_bad_c);
        free(x"40000004");
        call(op_free_c, x"40000004", status_double_c);
        free(x"00000004");
        alloc(x"7ffffffc", x"00000004");
        free(x"00000004");
      elsif run("a cut through all sizes, and whole again") then
        alloc(x"0000000c", x"00000004");
        for k in 4 to 30 loop
          alloc(std_ulogic_vector(shift_left(to_unsigned(1, 32), k) - 4),
                std_ulogic_vector(shift_left(to_unsigned(1, 32), k) + 4));
        end loop;
        call(op_alloc_c, x"00000001", status_full_c);
        for k in 4 to 30 loop
          free(std_ulogic_vector(shift_left(to_unsigned(1, 32), k) + 4));
        end loop;
        free(x"00000004");
        alloc(x"7ffffffc", x"00000004");
        free(x"00000004");
      end if;
    end loop;
    test_runner_cleanup(runner);
  end process main;

  test_runner_watchdog(runner, 10 ms);

end architecture bench;
