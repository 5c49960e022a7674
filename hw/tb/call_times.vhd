-- SPDX-License-Identifier: MIT
-- Sums of the times of calls, and a log with a line for each of them (doc/bench.md).
library ieee;
  use ieee.std_logic_1164.all;
  use std.textio.all;
library work;
  use work.coffer_hw.all;
  use work.unit_calls.all;

package call_times is

  type sum_t is record
    least, most : natural;
    sum         : real;
  end record sum_t;

  type sums_t is record
    count                           : natural;
    find, block_time, total, answer : sum_t;
  end record sums_t;

  constant no_sum_c  : sum_t  := (natural'high, 0, 0.0);
  constant no_sums_c : sums_t := (0, no_sum_c, no_sum_c, no_sum_c, no_sum_c);

  procedure add (sums : inout sums_t; call : in call_t);

  -- Reports least, mean and most in nanoseconds, if there was any.
  procedure tell (name : string; count : natural; sum : sum_t);

  -- The line of an allocation (`a`) or a free (`f`) of so many bytes.
  procedure write_call (file log : text; letter : character; bytes : natural; call : in call_t; how : how_t);

end package call_times;

package body call_times is

  procedure add_one (sum : inout sum_t; value : natural) is
  begin
    sum.least := minimum(sum.least, value);
    sum.most := maximum(sum.most, value);
    sum.sum := sum.sum + real(value);
  end procedure add_one;

  procedure add (sums : inout sums_t; call : in call_t) is
  begin
    sums.count := sums.count + 1;
    add_one(sums.find, call.find);
    add_one(sums.block_time, call.block_time);
    add_one(sums.total, call.total);
    add_one(sums.answer, call.answer);
  end procedure add;

  procedure tell (name : string; count : natural; sum : sum_t) is
  begin
    if count /= 0 then
      report name & ": min " & integer'image(sum.least * 5) & ", mean " & to_string(sum.sum * 5.0 / real(count), 1) &
             ", max " & integer'image(sum.most * 5) & " ns";
    end if;
  end procedure tell;

  function way_of (how : how_t) return character is
  begin

    case how is

      when how_direct_c =>
        return 'd';

      when how_pair_c =>
        return 'p';

      when how_cut_c =>
        return 'c';

      when others =>
        return '-';

    end case;

  end function way_of;

  procedure write_call (file log : text; letter : character; bytes : natural; call : in call_t; how : how_t) is
    variable text_l : line;
    variable way    : character := '-';
  begin
    if letter = 'a' and call.status = status_ok_c then
      way := way_of(how);
    end if;
    write(text_l, letter & ' ' & integer'image(bytes) & ' ' & to_hstring(call.result) & ' ' &
          integer'image(call.find) & ' ' & integer'image(call.block_time) & ' ' & integer'image(call.total) & ' ' &
          integer'image(call.answer) & ' ' & integer'image(call.stall) & ' ' & way);
    writeline(log, text_l);
  end procedure write_call;

end package body call_times;
