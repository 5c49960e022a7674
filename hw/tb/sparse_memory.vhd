-- SPDX-License-Identifier: MIT
-- Memory for benches: pages of words that come into being when they are first touched, full of noise, as memory is.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

package sparse_memory is

  type memory_t is protected

    procedure write_word (address : natural; value : word_t);

    impure function read_word (address : natural) return word_t;

  end protected memory_t;

end package sparse_memory;

package body sparse_memory is

  type memory_t is protected body

    constant page_words_c : positive := 1024;
    constant pages_c      : positive := 2 ** 19;  -- 2 GB

    type page_t is array (0 to page_words_c - 1) of integer;

    type page_pointer_t is access page_t;

    type pages_t is array (0 to pages_c - 1) of page_pointer_t;

    variable pages : pages_t;

    procedure touch (page : natural) is
      variable noise : natural;
    begin
      if pages(page) = null then
        pages(page) := new page_t;
        noise := page + 1;
        for i in page_t'range loop
          noise := (noise * 1103 + 12345) mod 2 ** 20;
          pages(page)(i) := noise * 2029 - 2 ** 30;
        end loop;
      end if;
    end procedure touch;

    procedure write_word (address : natural; value : word_t) is
      constant word_c : natural := address / 4;
    begin
      touch(word_c / page_words_c);
      pages(word_c / page_words_c)(word_c mod page_words_c) := to_integer(signed(value));
    end procedure write_word;

    impure function read_word (address : natural) return word_t is
      constant word_c : natural := address / 4;
    begin
      touch(word_c / page_words_c);
      return std_ulogic_vector(to_signed(pages(word_c / page_words_c)(word_c mod page_words_c), 32));
    end function read_word;

  end protected body memory_t;

end package body sparse_memory;
