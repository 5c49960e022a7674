-- SPDX-License-Identifier: MIT
-- Of a word, the memory of a proof keeps the lowest bits, all that a header or an address has in a small heap, and
-- whether it links to nothing: of words of 32 bits the proofs would take long.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

package short_words is

  -- So many bits are kept: one more than that.
  function shorten (word : word_t; bits : positive) return std_ulogic_vector;

  function lengthen (short : std_ulogic_vector) return word_t;

end package short_words;

package body short_words is

  function shorten (word : word_t; bits : positive) return std_ulogic_vector is
  begin
    return word(31) & word(bits - 1 downto 0);
  end function shorten;

  function lengthen (short : std_ulogic_vector) return word_t is
    variable kept : std_ulogic_vector(short'length - 1 downto 0);
  begin
    kept := short;
    if kept(kept'high) = '1' then
      return nothing_c;
    end if;
    return std_ulogic_vector(resize(unsigned(kept(kept'high - 1 downto 0)), 32));
  end function lengthen;

end package body short_words;
