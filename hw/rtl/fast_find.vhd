-- SPDX-License-Identifier: MIT
-- Fast Find (thesis, section 4.4.1): of all indices that have a free block, the smallest that is large enough, in one
-- step. Vectors have one bit for each block size, as sizes themselves are written.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity fast_find is
  port (
    size_i  : in    word_t;     -- one-hot: the block size wanted
    lists_i : in    word_t;     -- the sizes that have a free block
    index_o : out   word_t;     -- one-hot: the size to take from; zeros if there is none
    found_o : out   std_ulogic
  );
end entity fast_find;

architecture rtl of fast_find is

  signal fitting : word_t;

begin

  -- All sizes from the wanted one up; of these the lowest.
  fitting <= lists_i and not std_ulogic_vector(unsigned(size_i) - 1);
  index_o <= lowest(fitting);
  found_o <= or_all(fitting);

end architecture rtl;
