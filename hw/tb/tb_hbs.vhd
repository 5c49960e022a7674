-- SPDX-License-Identifier: MIT
-- vunit: run_all_in_same_sim
-- hbs at its edges: what it refuses and how, a heap cut into its smallest blocks and joined again, and how many
-- transfers each kind of call takes (doc/hbs.md). The traces test its answers at length.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library vunit_lib;
  context vunit_lib.vunit_context;
library work;
  use work.coffer_hw.all;
  use work.owners.all;
  use work.unit_calls.all;

entity tb_hbs is
  generic (
    runner_cfg  : string;
    unit_g      : string     := "hbs";  -- or hbs_reference
    free_bit_g  : std_ulogic := '0'
  );
end entity tb_hbs;

architecture bench of tb_hbs is

  constant patience_c : positive := 10000;
  constant heap_c      : positive := 4096;
  constant optimised_c : boolean  := unit_g = "hbs";

  signal clk    : std_ulogic := '0';
  signal rst    : std_ulogic := '1';
  signal ask    : ask_t      := ask_nothing_c;
  signal seen   : seen_t;

begin

  clk <= not clk after 2500 ps;

  harness : entity work.unit_harness
    generic map (
      unit_g      => unit_g,
      free_bit_g  => free_bit_g,
      heap_log2_g => 16
    )
    port map (
      clk_i  => clk,
      rst_i  => rst,
      ask_i  => ask,
      seen_o => seen
    );

  main : process is

    variable book : owners_t;
    variable last : call_t;
    variable got  : word_t;

    procedure call (what : opcode_t; argument : word_t; expected : status_t) is
    begin
      call_unit(clk, ask, seen, what, argument, nothing_c, true, "tb_hbs: ", patience_c, last);
      got := last.result;
      check_equal(last.status, expected, "status");
      if expected /= status_ok_c or what /= op_alloc_c then
        check_equal(got, nothing_c, "no address");
      end if;
    end procedure call;

    procedure alloc (bytes : natural; expected : status_t := status_ok_c) is
    begin
      call(op_alloc_c, number(bytes), expected);
      if expected = status_ok_c then
        book.take(to_integer(unsigned(got)) - 4, to_integer(unsigned(block_size(number(bytes), 4))));
      end if;
    end procedure alloc;

    procedure free (address : word_t) is
    begin
      call(op_free_c, address, status_ok_c);
      book.give_back(to_integer(unsigned(address)) - 4);
    end procedure free;

    variable first, second, third : word_t;

  begin
    test_runner_setup(runner, runner_cfg);
    while test_suite loop
      rst <= '1';
      pause(clk, 4);
      rst <= '0';
      wait until rising_edge(clk);
      book.forget;
      if run("nothing works before there is a heap") then
        call(op_alloc_c, number(8), status_closed_c);
        call(op_free_c, number(4), status_closed_c);
      elsif run("a heap is a power of two that fits") then
        call(op_init_c, number(0), status_bad_c);
        call(op_init_c, number(8), status_bad_c);
        call(op_init_c, number(4095), status_bad_c);
        call(op_init_c, number(2 ** 17), status_bad_c);
        call(op_alloc_c, number(8), status_closed_c);
        call(op_init_c, number(16), status_ok_c);
        alloc(12);
        alloc(0, status_full_c);
        call(op_init_c, number(2 ** 16), status_ok_c);
      elsif run("opcodes that mean nothing are refused") then
        call(op_init_c, number(heap_c), status_ok_c);
        call(op_load_c, number(0), status_bad_c);
        call(op_store_c, number(0), status_bad_c);
        call("110", number(0), status_bad_c);
        call("111", number(0), status_bad_c);
      elsif run("requests that no block can hold") then
        call(op_init_c, number(heap_c), status_ok_c);
        alloc(heap_c - 3, status_full_c);
        call(op_alloc_c, x"ffffffff", status_full_c);
        call(op_alloc_c, x"fffffffc", status_full_c);
        call(op_alloc_c, x"7ffffffd", status_full_c);
        alloc(heap_c - 4);
        alloc(1, status_full_c);
        free(number(4));
        alloc(heap_c - 4);
      elsif run("wrong frees are told and change nothing") then
        call(op_init_c, number(heap_c), status_ok_c);
        alloc(20);
        first := got;
        alloc(20);
        second := got;
        call(op_free_c, number(0), status_bad_c);
        call(op_free_c, nothing_c, status_bad_c);
        call(op_free_c, number(heap_c + 4), status_bad_c);
        call(op_free_c, x"80000004", status_bad_c);
        call(op_free_c, plus(first, 4), status_bad_c);
        call(op_free_c, plus(first, 16), status_bad_c);
        call(op_free_c, plus(second, 1), status_bad_c);
        free(first);
        call(op_free_c, first, status_double_c);
        free(second);
        -- Both are inside of the whole heap now.
        call(op_free_c, second, status_bad_c);
        call(op_free_c, first, status_double_c);
        alloc(heap_c - 4);
      elsif run("the whole heap in smallest blocks, and whole again") then
        call(op_init_c, number(heap_c), status_ok_c);
        for i in 0 to heap_c / 16 - 1 loop
          alloc(12);
          check_equal(got, number(i * 16 + 4), "lowest first, as cutting yields");
        end loop;
        alloc(0, status_full_c);
        check_equal(book.live_bytes, heap_c);
        -- Every other one first, so that the others join at once and all the way.
        for i in 0 to heap_c / 32 - 1 loop
          free(number(i * 32 + 4));
        end loop;
        alloc(20, status_full_c);
        for i in heap_c / 32 - 1 downto 0 loop
          free(number(i * 32 + 20));
        end loop;
        check_equal(book.live_bytes, 0);
        alloc(heap_c - 4);
      elsif run("transfers of each call") then
        call(op_init_c, number(heap_c), status_ok_c);
        check_equal(last.transfers, 3, "init");
        -- Cut from 4096 to 16: its link, 8 blocks listed with 3 words each, its header.
        alloc(12);
        check_equal(last.transfers, 1 + 8 * 3 + 1, "the deepest cut");
        if optimised_c then
          check_equal(last.transfers_till_answer, 1, "Fast Return: the link alone");
        else
          check_equal(last.transfers_till_answer, last.transfers, "no Fast Return");
        end if;
        first := got;
        alloc(12);
        check_equal(last.transfers, 2, "a list with one block");
        second := got;
        alloc(28);
        third := got;
        free(second);
        check_equal(last.transfers, 1 + 1 + 3, "a free with a live buddy, onto an empty list");
        -- The buddy joins at 16, not at 32, where the neighbour lives: 1 + (read, 2 links, erase) + 1 + 3.
        free(first);
        check_equal(last.transfers, 1 + 4 + 1 + 3, "one join");
        free(third);
        -- 32 to 2048, eight... each level's buddy is alone on its list; the heap itself has none.
        check_equal(last.transfers, 1 + 7 * 4 + 3, "the longest join");
        alloc(heap_c - 4);
      end if;
    end loop;
    test_runner_cleanup(runner);
  end process main;

  test_runner_watchdog(runner, 10 ms);

end architecture bench;
