-- SPDX-License-Identifier: MIT
-- A call of a unit's, as the benches make it: the request, its answer, and how long everything has taken. unit_harness
-- has the unit.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

package unit_calls is

  -- To the unit.
  type ask_t is record
    op    : opcode_t;
    data  : word_t;
    store : word_t;
  end record ask_t;

  constant ask_nothing_c : ask_t := (op_none_c, (others => '0'), (others => '0'));

  -- From it; ack: a transfer of its own ends.
  type seen_t is record
    ready, done, ack : std_ulogic;
    status           : status_t;
    result           : word_t;
    phase            : phase_t;
    how              : how_t;
  end record seen_t;

  -- One call. Times are logic cycles: `find` and `block_time` as the unit says, `total` from the request till the end,
  -- `answer` from when the processor wants to ask till it has its answer, `stall` of this till the unit listened.
  type call_t is record
    status                                 : status_t;
    result                                 : word_t;
    find, block_time, total, answer, stall : natural;
    transfers, transfers_till_answer       : natural;
  end record call_t;

  -- Waits till the unit listens. More than `patience` cycles end the simulation, with `place` and a watchdog's word.
  procedure wait_for_ready (signal clk : in std_ulogic; signal seen : in seen_t; place : string; patience : positive;
                            cycles : inout natural);

  -- Returns right after a rising edge: when the unit has answered, or with till_rest, listens again too.
  procedure call_unit (signal clk : in std_ulogic; signal ask : out ask_t; signal seen : in seen_t; what : opcode_t;
                       argument, store : word_t; till_rest : boolean; place : string; patience : positive;
                       call : inout call_t);

  procedure pause (signal clk : in std_ulogic; cycles : natural);

  function number (value : natural) return word_t;

end package unit_calls;

package body unit_calls is

  procedure wait_for_ready (signal clk : in std_ulogic; signal seen : in seen_t; place : string; patience : positive;
                            cycles : inout natural) is
  begin
    while seen.ready /= '1' loop
      wait until rising_edge(clk);
      cycles := cycles + 1;
      assert cycles <= patience
        report place & "watchdog: the unit is not ready after " & integer'image(patience) & " cycles"
        severity failure;
    end loop;
  end procedure wait_for_ready;

  procedure call_unit (signal clk : in std_ulogic; signal ask : out ask_t; signal seen : in seen_t; what : opcode_t;
                       argument, store : word_t; till_rest : boolean; place : string; patience : positive;
                       call : inout call_t) is
    -- The argument may be the last call's result, which is about to be forgotten.
    constant request_c : ask_t   := (what, argument, store);
    variable answered  : boolean := false;
  begin
    call := (status_ok_c, nothing_c, 0, 0, 0, 0, 0, 0, 0);
    wait_for_ready(clk, seen, place, patience, call.stall);
    ask <= request_c;
    wait until rising_edge(clk);
    ask.op <= op_none_c;
    loop
      wait until rising_edge(clk);
      call.total := call.total + 1;
      if seen.phase = phase_find_c then
        call.find := call.find + 1;
      elsif seen.phase = phase_block_c then
        call.block_time := call.block_time + 1;
      end if;
      if seen.ack = '1' then
        call.transfers := call.transfers + 1;
      end if;
      if seen.done = '1' then
        assert not answered
          report place & "a second answer to one call"
          severity failure;
        answered := true;
        call.result := seen.result;
        call.status := seen.status;
        call.answer := call.stall + call.total;
        call.transfers_till_answer := call.transfers;
      end if;
      exit when answered and (seen.ready = '1' or not till_rest);
      assert call.total <= patience
        report place & "watchdog: no end of the call after " & integer'image(patience) & " cycles"
        severity failure;
    end loop;
  end procedure call_unit;

  procedure pause (signal clk : in std_ulogic; cycles : natural) is
  begin
    for i in 1 to cycles loop
      wait until rising_edge(clk);
    end loop;
  end procedure pause;

  function number (value : natural) return word_t is
  begin
    return std_ulogic_vector(to_unsigned(value, 32));
  end function number;

end package body unit_calls;
