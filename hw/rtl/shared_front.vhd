-- SPDX-License-Identifier: MIT
-- The processor's side of shared_indices: allocations from the buffers, frees and parts of a cut block into them, one
-- operation at a time, and for the parts of a cut one index a cycle, the smallest first.
--
-- A free looks through its buffer for the block it may have been freed to before. What the back must do first is asked
-- of it with needs_block_o, needs_pair_o and needs_room_o, each for `pick_o`.
--
-- What is known of an index here is a cycle old, but for what only the front changes. So after the back has had its
-- turn, and before an index is changed, it is looked up anew (`load`). In the states that are `passive_o` nothing of
-- the buffers is looked at or changed, and only behind these is it the back's turn.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity shared_front is
  generic (
    min_log2_g  : natural  := 4;
    heap_log2_g : natural  := 25;
    ring_g      : positive := 3
  );
  port (
    clk_i         : in    std_ulogic;
    rst_i         : in    std_ulogic;
    -- The interface layer.
    enable_i      : in    std_ulogic_vector(heap_log2_g downto min_log2_g);
    op_i          : in    index_op_t;
    addr_i        : in    std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);
    done_o        : out   std_ulogic;
    refused_o     : out   std_ulogic;
    answer_o      : out   std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);
    -- The buffers.
    index_o       : out   std_ulogic_vector(heap_log2_g downto min_log2_g);
    count_i       : in    unsigned(ring_g downto 0);
    top_i         : in    unsigned(ring_g - 1 downto 0);
    room_i        : in    std_ulogic;
    two_i         : in    std_ulogic;
    at_o          : out   unsigned(ring_g - 1 downto 0);
    pop_o         : out   std_ulogic;
    push_o        : out   std_ulogic;
    push_value_o  : out   std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);
    place_i       : in    std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);
    -- The back.
    pick_o        : out   std_ulogic_vector(heap_log2_g downto min_log2_g);  -- one-hot: the index that is worked on
    needs_block_o : out   std_ulogic;
    needs_pair_o  : out   std_ulogic;
    needs_room_o  : out   std_ulogic;
    looks_o       : out   std_ulogic;                                        -- it may need something in a moment
    passive_o     : out   std_ulogic;
    back_turn_i   : in    std_ulogic;
    at_i          : in    std_ulogic_vector(heap_log2_g downto min_log2_g);  -- one-hot: the index that the back is at
    listed_i      : in    std_ulogic_vector(heap_log2_g downto min_log2_g);
    paired_i      : in    std_ulogic_vector(heap_log2_g downto min_log2_g);
    coming_i      : in    std_ulogic;                                        -- the back has a block on its way
    kept_i        : in    natural range 0 to 2;                              -- places there that are reserved
    kept_above_i  : in    std_ulogic;                                        -- one of the next index
    moving_i      : in    std_ulogic;                                        -- `moved_i` is in no buffer
    moved_i       : in    std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);
    back_idle_i   : in    std_ulogic;
    pair_i        : in    std_ulogic;                                        -- the pair that was needed: pair_addr_i
    pair_addr_i   : in    std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0)
  );
end entity shared_front;

architecture rtl of shared_front is

  subtype set_t is std_ulogic_vector(heap_log2_g downto min_log2_g);

  subtype short_t is std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);

  type state_t is (rest, load, look, pop, reach, scan, push, block_wait, room_wait, pairing, told);

  signal state        : state_t;
  signal pick, ahead  : set_t;       -- one-hot; of a cut's parts, the one that comes next, or none
  signal left         : set_t;       -- those that still get a part
  signal index        : set_t;
  signal looked       : std_ulogic;  -- a free's block is not in its buffer
  signal refuses      : std_ulogic;
  signal freed        : short_t;
  signal seen         : short_t;
  signal scanned      : unsigned(ring_g downto 0);
  signal position     : unsigned(ring_g - 1 downto 0);
  signal has          : std_ulogic;
  signal has_room     : std_ulogic;

  -- Of the index that was named in the last cycle, as it was then.
  signal same, above  : std_ulogic;  -- the back is at it; at the one below
  signal comes        : std_ulogic;  -- it has a block, or gets one
  signal paired       : std_ulogic;

begin

  has      <= '1' when count_i /= 0 else '0';
  has_room <= '0' when room_i = '0' or (same = '1' and kept_i = 2) or
              (two_i = '0' and ((same = '1' and kept_i = 1) or (above = '1' and kept_above_i = '1'))) else '1';

  name : process (all) is
  begin
    index <= pick;
    if state = rest then
      index <= enable_i;
    elsif state = push and has_room = '1' then
      index <= ahead;
    end if;
  end process name;

  index_o      <= index;
  pick_o       <= pick;
  pop_o        <= '1' when state = pop else '0';
  push_o       <= '1' when state = push and has_room = '1' else '0';
  push_value_o <= freed or pick(heap_log2_g - 1 downto min_log2_g) when op_i = index_part_c else freed;
  at_o         <= top_i when state = look else position;

  needs_block_o <= '1' when state = block_wait else '0';
  needs_pair_o  <= '1' when state = pairing and paired = '1' else '0';
  needs_room_o  <= '1' when state = room_wait else '0';

  with state select looks_o <=
    '1' when load | look | push,
    '0' when others;

  with state select passive_o <=
    '1' when rest | block_wait | room_wait | pairing | told,
    '0' when others;

  done_o    <= '1' when state = told and refuses = '0' else '0';
  refused_o <= '1' when state = told and refuses = '1' else '0';

  run : process (clk_i) is

    variable others_left : set_t;

  begin
    if rising_edge(clk_i) then
      same   <= or_all(index and at_i);
      above  <= or_all(index(heap_log2_g downto min_log2_g + 1) and at_i(heap_log2_g - 1 downto min_log2_g));
      comes  <= or_all(index and (listed_i or paired_i)) or (or_all(index and at_i) and coming_i);
      paired <= or_all(index and paired_i);
      seen   <= place_i;

      case state is

        when rest =>
          refuses <= '0';
          looked  <= '0';
          freed   <= addr_i;
          left    <= enable_i;
          pick    <= lowest(enable_i);
          if or_all(enable_i) = '1' then
            if op_i = index_pair_c then
              state <= pairing;
            elsif op_i = index_part_c or back_turn_i = '1' then
              state <= load;
            else
              state <= look;
            end if;
          end if;

        when load =>
          others_left := left and not pick;
          left        <= others_left;
          ahead       <= lowest(others_left);
          if back_turn_i = '0' then
            if op_i = index_part_c or looked = '1' then
              state <= push;
            else
              state <= look;
            end if;
          end if;

        -- A free begins to look for its block.
        when look =>
          position <= top_i - 1;
          scanned  <= count_i;
          if back_turn_i = '1' then
            state <= load;
          elsif op_i = index_alloc_c then
            if has = '1' then
              state <= pop;
            elsif comes = '1' then
              state <= block_wait;
            else
              refuses <= '1';
              state   <= told;
            end if;
          elsif same = '1' and moving_i = '1' and moved_i = freed then
            refuses <= '1';
            state   <= told;
          elsif has = '1' then
            state <= reach;
          else
            looked <= '1';
            state  <= push;
          end if;

        when pop =>
          answer_o <= place_i;
          state    <= told;

        -- Newest first; what is compared has been asked for two cycles ago. A block RAM is slow enough without a
        -- comparison behind it.
        when reach =>
          position <= position - 1;
          state    <= scan;

        when scan =>
          position <= position - 1;
          scanned  <= scanned - 1;
          if seen = freed then
            refuses <= '1';
            state   <= told;
          elsif scanned = 1 then
            looked <= '1';
            state  <= push;
          end if;

        when push =>
          if has_room = '1' then
            others_left := left and not ahead;
            left        <= others_left;
            pick        <= ahead;
            ahead       <= lowest(others_left);
            if op_i /= index_part_c or or_all(ahead) = '0' then
              state <= told;
            end if;
          else
            state <= room_wait;
          end if;

        -- An allocation from an empty buffer waits here for what the back brings or turns out not to have.
        when block_wait =>
          if back_turn_i = '1' or comes = '0' then
            state <= load;
          end if;

        when room_wait =>
          if back_turn_i = '1' or has_room = '1' then
            state <= load;
          end if;

        when pairing =>
          if pair_i = '1' then
            answer_o <= pair_addr_i;
            state    <= told;
          elsif back_idle_i = '1' and paired = '0' then
            refuses <= '1';
            state   <= told;
          end if;

        when told =>
          state <= rest;

      end case;

      if rst_i = '1' then
        state <= rest;
        pick  <= (others => '0');
      end if;
    end if;
  end process run;

end architecture rtl;
