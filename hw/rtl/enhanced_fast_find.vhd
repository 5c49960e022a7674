-- SPDX-License-Identifier: MIT
-- Enhanced Fast Find (thesis, section 5.4.2): beside the index to take a block from, all indices that get a part of it
-- when it is cut: the wanted size and those between.
--
-- One carry chain: the wanted size is added to the vector of what is not available, and the carry runs from there over
-- all that is not available into the first index that is. What it has turned are the sizes in question.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity enhanced_fast_find is
  port (
    size_i      : in    word_t;     -- one-hot: the block size wanted
    available_i : in    word_t;
    top_o       : out   word_t;     -- one-hot: the size to take from
    parts_o     : out   word_t;     -- the sizes that get a right half, if there is one to take from
    found_o     : out   std_ulogic
  );
end entity enhanced_fast_find;

architecture rtl of enhanced_fast_find is

  signal sum : unsigned(32 downto 0);

begin

  sum     <= unsigned('0' & not available_i) + unsigned('0' & size_i);
  top_o   <= std_ulogic_vector(sum(31 downto 0)) and available_i;
  parts_o <= not std_ulogic_vector(sum(31 downto 0)) and not available_i;
  found_o <= not sum(32);

end architecture rtl;
