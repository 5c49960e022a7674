-- SPDX-License-Identifier: MIT
-- The words that all units share: opcodes, answers, header words, sizes.
--
-- Addresses are offsets from the heap's first byte. A header is a word: the block's size in bytes, a power of two, and
-- bit 0, which tells whether the block is free (doc/decisions.md, 15). Behind it, in a block that is on a list, come
-- the links to the previous and the next block. What a program gets begins behind the first word.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;

package coffer_hw is

  subtype word_t is std_ulogic_vector(31 downto 0);

  type words_t is array (natural range <>) of word_t;

  -- A number for each index of OHEBS.
  type per_index_t is array (4 to 31) of natural;

  -- No block. Odd, so no address of a block can be it (doc/decisions.md, 9).
  constant nothing_c : word_t := (others => '1');

  -- What a processor may ask for.
  subtype opcode_t is std_ulogic_vector(2 downto 0);
  constant op_none_c  : opcode_t := "000";
  constant op_init_c  : opcode_t := "001";  -- data: the heap's size
  constant op_alloc_c : opcode_t := "010";  -- data: bytes wanted
  constant op_free_c  : opcode_t := "011";  -- data: what an allocation has answered
  constant op_load_c  : opcode_t := "100";  -- address
  constant op_store_c : opcode_t := "101";  -- address, data
  constant op_marks_c : opcode_t := "110";  -- data: high mark << 16 + low mark << 8 + index

  -- How it went.
  subtype status_t is std_ulogic_vector(2 downto 0);
  constant status_ok_c     : status_t := "000";
  constant status_full_c   : status_t := "001";  -- no free block is large enough
  constant status_bad_c    : status_t := "010";  -- no live block begins there, or the argument makes no sense
  constant status_double_c : status_t := "011";  -- the block is free already
  constant status_closed_c : status_t := "100";  -- no heap has been initialised

  constant status_fault_c  : status_t := "101";  -- of the bus faces: memory has refused a transfer

  -- The bus faces' registers, by word (doc/registers.md).
  constant reg_id_c      : natural := 0;
  constant reg_shape_c   : natural := 1;
  constant reg_control_c : natural := 2;
  constant reg_base_c    : natural := 3;
  constant reg_status_c  : natural := 4;
  constant reg_answer_c  : natural := 5;
  constant reg_late_c    : natural := 6;
  constant reg_heap_c    : natural := 7;
  constant reg_init_c    : natural := 8;
  constant reg_alloc_c   : natural := 9;
  constant reg_free_c    : natural := 10;
  constant reg_marks_c   : natural := 11;
  constant reg_close_c   : natural := 12;
  constant register_id_c : word_t  := x"C0FFE401";  -- the last byte is the map's version

  -- The register SHAPE.
  function shape (hbs : boolean; min_log2, heap_log2 : natural; fast_return, posted, recombine : boolean) return word_t;

  -- What OHEBS's interface layer asks of one index.
  subtype index_op_t is std_ulogic_vector(1 downto 0);
  constant index_alloc_c : index_op_t := "00";
  constant index_free_c  : index_op_t := "01";
  constant index_part_c  : index_op_t := "10";  -- the right half at this size of a block that is being cut
  constant index_pair_c  : index_op_t := "11";

  -- What the unit is doing, for the benches' logs.
  subtype phase_t is std_ulogic_vector(1 downto 0);
  constant phase_idle_c  : phase_t := "00";
  constant phase_find_c  : phase_t := "01";
  constant phase_block_c : phase_t := "10";

  -- How OHEBS has served its last allocation, for the same logs.
  subtype how_t is std_ulogic_vector(1 downto 0);
  constant how_none_c   : how_t := "00";
  constant how_direct_c : how_t := "01";
  constant how_pair_c   : how_t := "10";
  constant how_cut_c    : how_t := "11";

  -- The fields of a block's header, in bytes.
  constant field_size_c     : natural := 0;
  constant field_previous_c : natural := 4;
  constant field_next_c     : natural := 8;
  constant header_bytes_c   : natural := 4;

  -- Exactly one bit is set.
  function is_one_hot (value : std_ulogic_vector) return boolean;

  -- The lowest set bit alone: the hardware's leading-zero detector, seen from the other end.
  function lowest (value : std_ulogic_vector) return std_ulogic_vector;

  -- The highest set bit alone.
  function highest (value : std_ulogic_vector) return std_ulogic_vector;

  -- The number of the only set bit; 0 if there is none.
  function bit_number (one_hot : std_ulogic_vector) return natural;

  -- The sizes from 2**least_log2 to 2**most_log2, as one word.
  function sizes (least_log2, most_log2 : natural) return word_t;

  -- Each bit of at most 32: whether it or one above it, or below it, is set. As deep as a tree.
  function or_above (value : std_ulogic_vector) return std_ulogic_vector;
  function or_below (value : std_ulogic_vector) return std_ulogic_vector;

  -- The block size, one-hot, for a request of so many bytes: header included, a power of two, at least 2**min_log2.
  -- All zeros if no block of 32 address bits is large enough.
  function block_size (bytes : word_t; min_log2 : natural) return word_t;

  function or_all (value : std_ulogic_vector) return std_ulogic;

  function plus (address : word_t; offset : natural) return word_t;

end package coffer_hw;

package body coffer_hw is

  function or_all (value : std_ulogic_vector) return std_ulogic is
    variable result : std_ulogic := '0';
  begin
    for i in value'range loop
      result := result or value(i);
    end loop;
    return result;
  end function or_all;

  function lowest (value : std_ulogic_vector) return std_ulogic_vector is
    variable number : unsigned(value'length - 1 downto 0);
  begin
    number := unsigned(value);
    return std_ulogic_vector(number and ((not number) + 1));
  end function lowest;

  -- Wires alone.
  function reversed (value : std_ulogic_vector) return std_ulogic_vector is
    variable input, result : std_ulogic_vector(value'length - 1 downto 0);
  begin
    input := value;
    for i in input'range loop
      result(input'length - 1 - i) := input(i);
    end loop;
    return result;
  end function reversed;

  -- A carry chain, which is much faster than one "or" behind another.
  function highest (value : std_ulogic_vector) return std_ulogic_vector is
  begin
    return reversed(lowest(reversed(value)));
  end function highest;

  function is_one_hot (value : std_ulogic_vector) return boolean is
    variable number : unsigned(value'length - 1 downto 0);
  begin
    number := unsigned(value);
    return number /= 0 and (number and (number - 1)) = 0;
  end function is_one_hot;

  -- Each bit of the number is the "or" of half of the bits: no chain of comparisons.
  function bit_number (one_hot : std_ulogic_vector) return natural is
    variable input : std_ulogic_vector(one_hot'length - 1 downto 0);
    variable number : unsigned(5 downto 0) := (others => '0');
  begin
    input := one_hot;
    for i in input'range loop
      for b in number'range loop
        if to_unsigned(i, 6)(b) = '1' then
          number(b) := number(b) or input(i);
        end if;
      end loop;
    end loop;
    return to_integer(number);
  end function bit_number;

  function sizes (least_log2, most_log2 : natural) return word_t is
    constant all_c : unsigned(31 downto 0) := (others => '1');
  begin
    return std_ulogic_vector(shift_right(shift_left(all_c, least_log2 + 31 - most_log2), 31 - most_log2));
  end function sizes;

  function or_above (value : std_ulogic_vector) return std_ulogic_vector is
    variable number : unsigned(value'length - 1 downto 0);
  begin
    number := unsigned(value);
    for i in 0 to 4 loop
      number := number or shift_right(number, 2 ** i);
    end loop;
    return std_ulogic_vector(number);
  end function or_above;

  function or_below (value : std_ulogic_vector) return std_ulogic_vector is
  begin
    return reversed(or_above(reversed(value)));
  end function or_below;

  -- A block of 2**k is too small for 2**k - 3 bytes and more (header_bytes_c): those that have a bit from k up, or all
  -- of the bits from k - 1 to 2 and one of the lowest two. No adder: they are as deep as a tree, not as a chain.
  function block_size (bytes : word_t; min_log2 : natural) return word_t is
    variable too_small : word_t;
    variable least     : word_t;
  begin
    too_small := or_above(bytes) or not (or_below(not (bytes(30 downto 2) & (bytes(1) or bytes(0)))) & "11");
    -- The smallest that is not. Below the minimum all are taken for too small.
    least := std_ulogic_vector(to_unsigned(2 ** min_log2 - 1, 32));
    too_small := too_small or least;
    return not too_small and (too_small(30 downto 0) & '1');
  end function block_size;

  function shape (hbs : boolean; min_log2, heap_log2 : natural; fast_return, posted, recombine : boolean)
    return word_t is
    -- A sum: ghdl 2.0's synthesis stumbles over variables that are assigned by bits here.
    variable number : natural := heap_log2 * 256 + min_log2;
  begin
    if fast_return then
      number := number + 2 ** 16;
    end if;
    if posted and not hbs then
      number := number + 2 ** 17;
    end if;
    if recombine or hbs then
      number := number + 2 ** 18;
    end if;
    if hbs then
      number := number + 2 ** 19;
    end if;
    return std_ulogic_vector(to_unsigned(number, 32));
  end function shape;

  function plus (address : word_t; offset : natural) return word_t is
  begin
    return std_ulogic_vector(unsigned(address) + offset);
  end function plus;

end package body coffer_hw;
