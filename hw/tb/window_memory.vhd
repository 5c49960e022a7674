-- SPDX-License-Identifier: MIT
-- The memory behind a bus in benches: words within a window that moves, and the dice that keep a master waiting. What
-- leaves the window, or is no word's address, fails.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
  use ieee.math_real.all;
library work;
  use work.coffer_hw.all;
  use work.sparse_memory.all;

package window_memory is

  type window_memory_t is protected

    -- The window's first byte and its length; `name` is who complains.
    procedure move (name : string; base : word_t; bytes : natural);

    procedure write_word (address, value : word_t);

    impure function read_word (address : word_t) return word_t;

    -- Heads or tails, the same each time.
    impure function chance return boolean;

  end protected window_memory_t;

end package window_memory;

package body window_memory is

  type window_memory_t is protected body

    variable memory : memory_t;
    variable name_l : string(1 to 20) := (others => ' ');
    variable first  : unsigned(31 downto 0);
    variable length : natural  := 0;
    variable seed_1 : positive := 5;
    variable seed_2 : positive := 6;

    procedure move (name : string; base : word_t; bytes : natural) is
    begin
      name_l(1 to name'length) := name;
      first := unsigned(base);
      length := bytes;
    end procedure move;

    impure function place (address : word_t) return natural is
    begin
      assert unsigned(address) >= first and unsigned(address) - first < length and address(1 downto 0) = "00"
        report name_l & ": outside of the window, or not a word: " & to_hstring(address)
        severity failure;
      return to_integer(unsigned(address) - first);
    end function place;

    procedure write_word (address, value : word_t) is
    begin
      memory.write_word(place(address), value);
    end procedure write_word;

    impure function read_word (address : word_t) return word_t is
    begin
      return memory.read_word(place(address));
    end function read_word;

    impure function chance return boolean is
      variable number : real;
    begin
      uniform(seed_1, seed_2, number);
      return number < 0.5;
    end function chance;

  end protected body window_memory_t;

end package body window_memory;
