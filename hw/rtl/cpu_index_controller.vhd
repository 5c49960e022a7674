-- SPDX-License-Identifier: MIT
-- The processor's side of one index (thesis, section 5.4.1): allocations from the Free-Buffer and frees into it, in the
-- cycle in which they are asked if the buffer has a block or room; else they wait for the RAM controller. Pairs are the
-- RAM controller's. An operation stays until done_o or refused_o, and is over in that cycle.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity cpu_index_controller is
  generic (
    index_g : natural range 4 to 31 := 4
  );
  port (
    enable_i      : in    std_ulogic;
    op_i          : in    index_op_t;
    addr_i        : in    word_t;
    done_o        : out   std_ulogic;
    refused_o     : out   std_ulogic;  -- there is no block (any more), or the block is free already
    addr_o        : out   word_t;
    -- From below: two buddies that have become one block of this size. The processor goes first.
    rise_i        : in    std_ulogic;
    rise_addr_i   : in    word_t;
    rise_done_o   : out   std_ulogic;
    -- The buffer's upper end.
    has_i         : in    std_ulogic;
    room_i        : in    std_ulogic;
    holds_i       : in    std_ulogic;
    top_i         : in    word_t;
    push_o        : out   std_ulogic;
    pop_o         : out   std_ulogic;
    value_o       : out   word_t;
    -- The RAM controller.
    coming_i      : in    std_ulogic;  -- it has blocks, or one on its way
    moving_i      : in    std_ulogic;
    moved_i       : in    word_t;
    wants_o       : out   std_ulogic;
    stuck_o       : out   std_ulogic;
    pair_o        : out   std_ulogic;
    pair_done_i   : in    std_ulogic;
    pair_none_i   : in    std_ulogic;
    pair_addr_i   : in    word_t
  );
end entity cpu_index_controller;

architecture rtl of cpu_index_controller is

  constant size_c : word_t := std_ulogic_vector(shift_left(to_unsigned(1, 32), index_g));

  signal adds    : std_ulogic;
  signal again   : std_ulogic;
  signal is_pair : std_ulogic;
  signal takes   : std_ulogic;

begin

  takes   <= '1' when enable_i = '1' and op_i = index_alloc_c else '0';
  adds    <= '1' when enable_i = '1' and (op_i = index_free_c or op_i = index_part_c) else '0';
  is_pair <= '1' when enable_i = '1' and op_i = index_pair_c else '0';

  -- A part of a block that is being cut is the right half at this size.
  value_o <= addr_i or size_c when adds = '1' and op_i = index_part_c else
             addr_i when adds = '1' else
             rise_addr_i;

  -- Freed twice: it is in the buffer, or just between the buffer and the lists. Parts cannot be.
  again <= '1' when adds = '1' and op_i = index_free_c and
           (holds_i = '1' or (moving_i = '1' and moved_i = addr_i)) else '0';

  pop_o       <= takes and has_i;
  push_o      <= (adds and room_i and not again) or (rise_i and not adds and not takes and room_i);
  rise_done_o <= rise_i and not adds and not takes and room_i;

  wants_o <= takes and not has_i;
  stuck_o <= (adds or rise_i) and not room_i;
  pair_o  <= is_pair;

  done_o <= (takes and has_i) or (adds and room_i and not again) or (is_pair and pair_done_i);

  refused_o <= (takes and not has_i and not coming_i) or again or (is_pair and pair_none_i);

  addr_o <= pair_addr_i when is_pair = '1' else top_i;

end architecture rtl;
