-- Enhanced Fast Find (thesis, section 5.4.2): beside the index to take a block from, all indices that get a part of it
-- when it is cut: the wanted size and those between.
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
    parts_o     : out   word_t;     -- the sizes that get a right half
    found_o     : out   std_ulogic
  );
end entity enhanced_fast_find;

architecture rtl of enhanced_fast_find is

  signal top : word_t;

begin

  finder : entity work.fast_find
    port map (
      size_i  => size_i,
      lists_i => available_i,
      index_o => top,
      found_o => found_o
    );

  top_o   <= top;
  parts_o <= std_ulogic_vector(unsigned(top) - unsigned(size_i));

end architecture rtl;
