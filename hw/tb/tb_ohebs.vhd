-- SPDX-License-Identifier: MIT
-- vunit: run_all_in_same_sim
-- ohebs at its edges: what it refuses and how, loads and stores, marks, cuts in constant time, bursts without a wait,
-- the flush, and what Estranged Buddy strands where recombination does not. The traces test its answers at length.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library vunit_lib;
  context vunit_lib.vunit_context;
library work;
  use work.coffer_hw.all;
  use work.owners.all;
  use work.unit_calls.all;

entity tb_ohebs is
  generic (
    runner_cfg : string;
    unit_g     : string := "ohebs"  -- or ohebs_joining, ohebs_waiting, ohebs_shared, ohebs_shared_joining
  );
end entity tb_ohebs;

architecture bench of tb_ohebs is

  constant patience_c : positive := 10000;
  constant heap_c        : positive := 4096;
  constant cycles_c      : positive := 12;  -- of a transfer
  constant fast_return_c : boolean  := unit_g /= "ohebs_waiting";
  constant recombine_c   : boolean  := unit_g = "ohebs_joining" or unit_g = "ohebs_shared_joining";
  constant shared_c      : boolean  := unit_g = "ohebs_shared" or unit_g = "ohebs_shared_joining";

  signal clk    : std_ulogic := '0';
  signal rst    : std_ulogic := '1';
  signal ask    : ask_t      := ask_nothing_c;
  signal seen   : seen_t;

begin

  clk <= not clk after 2500 ps;

  harness : entity work.unit_harness
    generic map (
      unit_g      => unit_g,
      plain_g     => cycles_c,
      heap_log2_g => 16
    )
    port map (
      clk_i  => clk,
      rst_i  => rst,
      ask_i  => ask,
      seen_o => seen
    );

  main : process is

    variable book   : owners_t;
    variable last   : call_t;
    variable got    : word_t;

    procedure call (what : opcode_t; argument : word_t; expected : status_t; store : word_t := nothing_c) is
    begin
      call_unit(clk, ask, seen, what, argument, store, true, "tb_ohebs: ", patience_c, last);
      got := last.result;
      check_equal(last.status, expected, "status");
    end procedure call;

    procedure alloc (bytes : natural; expected : status_t := status_ok_c) is
    begin
      call(op_alloc_c, number(bytes), expected);
      if expected = status_ok_c then
        book.take(to_integer(unsigned(got)) - 4, to_integer(unsigned(block_size(number(bytes), 4))));
      else
        check_equal(got, nothing_c, "no address");
      end if;
    end procedure alloc;

    procedure free (address : word_t) is
    begin
      call(op_free_c, address, status_ok_c);
      book.give_back(to_integer(unsigned(address)) - 4);
    end procedure free;

    procedure rest is
    begin
      pause(clk, 3000);
    end procedure rest;

    procedure set_marks (index, low, high : natural; expected : status_t := status_ok_c) is
    begin
      call(op_marks_c, number(high * 65536 + low * 256 + index), expected);
    end procedure set_marks;

    variable first, second : word_t;
    variable time_of_cut   : natural;
    variable blocks        : words_t(0 to 99);

  begin
    test_runner_setup(runner, runner_cfg);
    while test_suite loop
      -- No transfer may be under way when the unit is reset.
      rest;
      rst <= '1';
      pause(clk, 4);
      rst <= '0';
      wait until rising_edge(clk);
      book.forget;
      if run("nothing works before there is a heap") then
        call(op_alloc_c, number(8), status_closed_c);
        call(op_free_c, number(4), status_closed_c);
        call("111", number(4), status_bad_c);
      elsif run("a heap is a power of two that fits, and can be begun anew") then
        call(op_init_c, number(0), status_bad_c);
        call(op_init_c, number(8), status_bad_c);
        call(op_init_c, number(4095), status_bad_c);
        call(op_init_c, number(2 ** 17), status_bad_c);
        call(op_init_c, number(16), status_ok_c);
        alloc(12);
        alloc(0, status_full_c);
        call(op_init_c, number(2 ** 16), status_ok_c);
        book.forget;
        for i in 0 to 40 loop
          alloc(100);
        end loop;
        -- In the midst of all the work that this leaves behind.
        for i in 0 to 20 loop
          call(op_free_c, number(i * 128 + 4), status_ok_c);
        end loop;
        call(op_init_c, number(heap_c), status_ok_c);
        book.forget;
        alloc(heap_c - 4);
        alloc(0, status_full_c);
      elsif run("requests that no block can hold") then
        call(op_init_c, number(heap_c), status_ok_c);
        alloc(heap_c - 3, status_full_c);
        call(op_alloc_c, x"ffffffff", status_full_c);
        call(op_alloc_c, x"7ffffffd", status_full_c);
        alloc(heap_c - 4);
        alloc(1, status_full_c);
        free(number(4));
        alloc(heap_c - 4);
      elsif run("loads and stores pass") then
        call(op_store_c, number(16#100#), status_ok_c, x"12345678");
        call(op_store_c, number(16#104#), status_ok_c, x"9abcdef0");
        call(op_load_c, number(16#100#), status_ok_c);
        check_equal(got, std_ulogic_vector'(x"12345678"));
        call(op_load_c, number(16#106#), status_ok_c);
        check_equal(got, std_ulogic_vector'(x"9abcdef0"));
      elsif run("wrong frees are told, wherever the block is") then
        call(op_init_c, number(heap_c), status_ok_c);
        alloc(20);
        first := got;
        alloc(20);
        second := got;
        call(op_free_c, number(0), status_bad_c);
        call(op_free_c, nothing_c, status_bad_c);
        call(op_free_c, number(heap_c + 4), status_bad_c);
        call(op_free_c, plus(first, 4), status_bad_c);
        call(op_free_c, plus(second, 1), status_bad_c);
        -- In the buffer; then, with marks of 0, on its way to the list and on it.
        free(first);
        call(op_free_c, first, status_double_c);
        set_marks(5, 0, 0);
        for i in 1 to 100 loop
          call(op_free_c, first, status_double_c);
        end loop;
        rest;
        call(op_free_c, first, status_double_c);
        free(second);
      elsif run("marks must leave room and order") then
        call(op_init_c, number(heap_c), status_ok_c);
        set_marks(3, 2, 6, status_bad_c);
        set_marks(17, 2, 6, status_bad_c);
        set_marks(4, 8, 8, status_bad_c);
        set_marks(4, 7, 6, status_bad_c);
        set_marks(4, 2, 9, status_bad_c);
        set_marks(4, 7, 8);
        set_marks(4, 4, 4);
        set_marks(4, 0, 8);
      elsif run("a cut takes the same time however deep") then
        call(op_init_c, number(2 ** 16), status_ok_c);
        alloc(2 ** 14);
        time_of_cut := last.total;
        for size_log2 in 4 to 13 loop
          call(op_init_c, number(2 ** 16), status_ok_c);
          book.forget;
          alloc(2 ** size_log2 - 4);
          if shared_c then
            -- One cycle more for each part but the first.
            check_equal(last.total, time_of_cut + 15 - size_log2);
          else
            check_equal(last.total, time_of_cut);
          end if;
        end loop;
        -- Its header, and nothing else of memory.
        check(last.total <= cycles_c + 10 or shared_c, "cycles: " & integer'image(last.total));
      elsif run("as many calls in a row as the marks leave wait for no transfer but their own") then
        call(op_init_c, number(heap_c), status_ok_c);
        for i in 0 to 39 loop
          alloc(12);
          blocks(i) := got;
        end loop;
        for i in 0 to 19 loop
          free(blocks(i));
        end loop;
        rest;
        -- At rest the buffer holds 6 of 8: two more fit, whatever the controller begins in between; a transfer of its
        -- own may be under way. Six at least can go out again.
        for i in 20 to 21 loop
          free(blocks(i));
          check(last.total <= 2 * cycles_c + 12, "a free that has room waits: " & integer'image(last.total));
        end loop;
        for i in 1 to 6 loop
          alloc(12);
          if shared_c then
            check(last.answer <= 8, "a buffered block waits: " & integer'image(last.answer));
          elsif fast_return_c then
            check(last.answer <= 5, "a buffered block waits: " & integer'image(last.answer));
          else
            check(last.answer <= 2 * cycles_c + 12, "a buffered block waits: " & integer'image(last.answer));
          end if;
        end loop;
      elsif run("the left one of a pair that is being split can be freed at once") and not recombine_c then
        call(op_init_c, number(heap_c), status_ok_c);
        for index in 4 to 7 loop
          set_marks(index, 0, 0);
        end loop;
        for round in 1 to 10 loop
          alloc(12);
          first := got;
          alloc(12);
          second := got;
          for i in 0 to 11 loop
            alloc(28 + 32 * (i mod 3));
            blocks(i) := got;
          end loop;
          free(first);
          free(second);
          -- Both are on Buddy-Free now.
          rest;
          -- Others' drains keep the right one on its way.
          for i in 0 to round loop
            free(blocks(i));
          end loop;
          alloc(12);
          first := got;
          free(first);
          for i in round + 1 to 11 loop
            free(blocks(i));
          end loop;
          rest;
        end loop;
      elsif run("all that buffers hold can be had") then
        call(op_init_c, number(256), status_ok_c);
        for round in 1 to 5 loop
          for i in 0 to 15 loop
            alloc(12);
            blocks(i) := got;
          end loop;
          alloc(0, status_full_c);
          for i in 0 to 15 loop
            free(blocks((i * 7) mod 16));
          end loop;
          if recombine_c then
            -- Whole again, whatever the buffers held.
            alloc(252);
            first := got;
            free(first);
          else
            -- Pairs of pairs are stranded, as published; pairs are not.
            alloc(252, status_full_c);
            alloc(60, status_full_c);
            alloc(28);
            first := got;
            free(first);
            rest;
            call(op_init_c, number(256), status_ok_c);
          end if;
        end loop;
      end if;
    end loop;
    test_runner_cleanup(runner);
  end process main;

  test_runner_watchdog(runner, 100 ms);

end architecture bench;
