-- SPDX-License-Identifier: MIT
-- The lists of shared_indices: what ram_index_controller does for one index, by the same sequences, for all of them,
-- one sequence at a time: what the processor waits for, then the indices below their low marks, then those above their
-- high marks. The lists' heads lie in a small RAM, are taken out when a sequence begins and put back when it ends.
--
-- The buffers are touched only when it is the back's turn (`asks_o`, `turn_i`). Whether a mark is passed is known a
-- cycle late, which does not matter: whether there is a block, or room, is looked at again then.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity shared_back is
  generic (
    min_log2_g  : natural    := 4;
    heap_log2_g : natural    := 25;
    recombine_g : boolean    := false;
    free_bit_g  : std_ulogic := '0'
  );
  port (
    clk_i         : in    std_ulogic;
    rst_i         : in    std_ulogic;
    heap_i        : in    std_ulogic_vector(heap_log2_g downto min_log2_g);
    -- The marks: the indices that are to be filled or drained when there is nothing else to do.
    flush_i       : in    std_ulogic;
    low_i         : in    std_ulogic_vector(heap_log2_g downto min_log2_g);
    high_i        : in    std_ulogic_vector(heap_log2_g downto min_log2_g);
    -- The front: what it needs, of which index.
    pick_i        : in    std_ulogic_vector(heap_log2_g downto min_log2_g);
    needs_block_i : in    std_ulogic;
    needs_pair_i  : in    std_ulogic;
    needs_room_i  : in    std_ulogic;
    looks_i       : in    std_ulogic;
    pair_o        : out   std_ulogic;
    pair_addr_o   : out   std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);
    -- What all may know.
    idle_o        : out   std_ulogic;
    at_o          : out   std_ulogic_vector(heap_log2_g downto min_log2_g);
    listed_o      : out   std_ulogic_vector(heap_log2_g downto min_log2_g);
    paired_o      : out   std_ulogic_vector(heap_log2_g downto min_log2_g);
    fetching_o    : out   std_ulogic;
    draining_o    : out   std_ulogic;
    kept_o        : out   natural range 0 to 2;
    kept_above_o  : out   std_ulogic;
    moving_o      : out   std_ulogic;
    moved_o       : out   std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);
    -- The buffers.
    asks_o        : out   std_ulogic;
    turn_i        : in    std_ulogic;
    has_i         : in    std_ulogic_vector(heap_log2_g downto min_log2_g);
    room_i        : in    std_ulogic_vector(heap_log2_g downto min_log2_g);
    index_o       : out   std_ulogic_vector(heap_log2_g downto min_log2_g);
    at_has_i      : in    std_ulogic;
    at_room_i     : in    std_ulogic;
    at_two_i      : in    std_ulogic;
    drain_o       : out   std_ulogic;
    fill_o        : out   std_ulogic;
    rise_o        : out   std_ulogic;
    value_o       : out   std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);
    place_i       : in    std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);
    -- Memory.
    req_o         : out   std_ulogic;
    we_o          : out   std_ulogic;
    addr_o        : out   word_t;
    wdata_o       : out   word_t;
    ack_i         : in    std_ulogic;
    rdata_i       : in    word_t
  );
end entity shared_back;

architecture rtl of shared_back is

  -- A block's address without the bits that are always zero.
  subtype short_t is std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);

  subtype set_t is std_ulogic_vector(heap_log2_g downto min_log2_g);

  type shorts_t is array (natural range <>) of short_t;

  type job_t is (fetch, give_pair, drain);

  type state_t is (
    idle, load, start, transfer,
    fetch_next, fetch_mark, fetch_fill, fetch_unlink,
    split_next, split_left, split_fill, split_right, split_last,
    pair_next, pair_give,
    drain_take, drain_buddy, drain_check, single_size, single_previous, single_next, single_old, single_list,
    unlink_previous, unlink_next, unlink_ahead, unlink_behind, join_mark, join_list, join_end, join_up, keep
  );

  function widen (set : set_t) return word_t is
    variable result : word_t := (others => '0');
  begin
    result(set_t'range) := set;
    return result;
  end function widen;

  function long (short : short_t) return word_t is
    variable result : word_t := (others => '0');
  begin
    result(heap_log2_g - 1 downto min_log2_g) := short;
    return result;
  end function long;

  function shorten (word : word_t) return short_t is
  begin
    return word(heap_log2_g - 1 downto min_log2_g);
  end function shorten;

  -- A link in memory: the address, or all ones.
  function link (short : short_t; is_there : std_ulogic) return word_t is
  begin
    if is_there = '1' then
      return long(short);
    end if;
    return nothing_c;
  end function link;

  signal singles, pairs       : shorts_t(0 to 31);  -- the lists' heads, by number
  signal listed, paired       : set_t;              -- the indices that have such lists
  signal is_low, is_high      : set_t;

  signal state, next_state    : state_t;
  signal job                  : job_t;
  signal for_marks            : std_ulogic;
  signal at, above            : set_t;              -- one-hot
  signal at_number            : unsigned(4 downto 0);
  signal at_low, at_high      : std_ulogic;
  signal above_room           : std_ulogic;
  signal drains               : std_ulogic;
  signal size                 : short_t;            -- the same as an address
  signal moved                : short_t;
  signal single, pair         : short_t;            -- the heads of its lists
  signal kept_single          : short_t;            -- as they have been read
  signal kept_pair            : short_t;
  signal has_single, has_pair : std_ulogic;
  signal ahead, behind        : word_t;
  signal read                 : word_t;
  signal whole                : std_ulogic;
  signal first                : std_ulogic;         -- the buddy is at the head of its list; known a cycle late
  signal buddy, left_one      : short_t;

begin

  above     <= at(heap_log2_g - 1 downto min_log2_g) & '0';
  at_number <= to_unsigned(bit_number(widen(at)), 5);
  size      <= at(heap_log2_g - 1 downto min_log2_g);
  buddy     <= moved xor size;
  left_one  <= moved and not size;

  idle_o      <= '1' when state = idle else '0';
  at_o        <= at;
  listed_o    <= listed;
  paired_o    <= paired;
  moved_o     <= moved;
  pair_o      <= '1' when state = pair_give else '0';
  pair_addr_o <= pair;

  index_o <= above when state = join_up else at;

  with state select asks_o <=
    not turn_i when start | fetch_fill | split_fill | split_last | join_up,
    '0' when others;

  -- A block is taken from the buffer if it is still there, and if what may rise has a place.
  drains <= '1' when at_has_i = '1' and (for_marks = '0' or at_high = '1') and
            not (recombine_g and whole = '0' and above_room = '0') else '0';

  drain_o <= '1' when turn_i = '1' and state = start and job = drain and drains = '1' else '0';
  fill_o  <= '1' when turn_i = '1' and (state = fetch_fill or state = split_fill or state = split_last) else '0';
  rise_o  <= '1' when turn_i = '1' and state = join_up else '0';

  with state select value_o <=
    single when fetch_fill,
    pair when split_fill,
    pair or size when split_last,
    left_one when others;

  -- The marks, what concerns the present index, the heads of its lists.
  look_up : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      is_low     <= low_i and (listed or paired) and not (set_t'range => flush_i);
      is_high    <= high_i or (has_i and (set_t'range => flush_i));
      at_low     <= or_all(at and is_low);
      at_high    <= or_all(at and is_high);
      above_room <= or_all(above and room_i);
      first      <= '0';
      if has_single = '1' and single = buddy then
        first <= '1';
      end if;
      kept_single <= singles(to_integer(at_number));
      kept_pair   <= pairs(to_integer(at_number));
      if state = keep then
        singles(to_integer(at_number)) <= single;
        pairs(to_integer(at_number))   <= pair;
      end if;
    end if;
  end process look_up;

  run : process (clk_i) is

    procedure read_word (from : short_t; offset : natural; and_then : state_t) is
    begin
      req_o     <= '1';
      we_o      <= '0';
      addr_o    <= long(from) or std_ulogic_vector(to_unsigned(offset, 32));
      next_state <= and_then;
      state      <= transfer;
    end procedure read_word;

    procedure write_word (into : short_t; offset : natural; new_word : word_t; and_then : state_t) is
    begin
      req_o     <= '1';
      we_o      <= '1';
      addr_o    <= long(into) or std_ulogic_vector(to_unsigned(offset, 32));
      wdata_o   <= new_word;
      next_state <= and_then;
      state      <= transfer;
    end procedure write_word;

    function header (index : set_t; bit_0 : std_ulogic) return word_t is
      variable result : word_t;
    begin
      result := widen(index);
      result(0) := bit_0;
      return result;
    end function header;

    variable joined : word_t;

  begin
    if rising_edge(clk_i) then

      case state is

        -- What the processor waits for comes first; then, unless it may need something in a moment, the marks.
        when idle =>
          at        <= pick_i;
          for_marks <= '0';
          if needs_block_i = '1' then
            job   <= fetch;
            state <= load;
          elsif needs_pair_i = '1' then
            job   <= give_pair;
            state <= load;
          elsif needs_room_i = '1' then
            job   <= drain;
            state <= load;
          elsif looks_i = '0' and or_all(is_low) = '1' then
            at        <= lowest(is_low);
            for_marks <= '1';
            job       <= fetch;
            state     <= load;
          elsif looks_i = '0' and or_all(is_high) = '1' then
            at        <= lowest(is_high);
            for_marks <= '1';
            job       <= drain;
            state     <= load;
          end if;

        when load =>
          has_single <= or_all(at and listed);
          has_pair   <= or_all(at and paired);
          whole      <= or_all(at and heap_i);
          state      <= start;

        -- Is it still so? The front may have been quicker.
        when start =>
          if turn_i = '1' then
            single <= kept_single;
            pair   <= kept_pair;
            moved  <= kept_single when has_single = '1' else kept_pair;
            state <= idle;
            if job = give_pair then
              if has_pair = '1' then
                state <= pair_next;
              end if;
            elsif job = fetch then
              if for_marks = '1' and at_low = '0' then
                null;
              elsif has_single = '1' and at_room_i = '1' then
                fetching_o <= '1';
                moving_o   <= '1';
                kept_o     <= 1;
                state      <= fetch_next;
              elsif has_single = '0' and has_pair = '1' and at_two_i = '1' then
                fetching_o <= '1';
                moving_o   <= '1';
                kept_o     <= 2;
                state      <= split_next;
              end if;
            elsif drains = '1' then
              draining_o <= '1';
              if recombine_g and whole = '0' then
                kept_above_o <= '1';
              end if;
              state <= drain_take;
            elsif at_has_i = '1' and (for_marks = '0' or at_high = '1') then
              -- What may rise needs a place: one of those above goes first.
              at        <= above;
              for_marks <= '0';
              state     <= load;
            end if;
          end if;

        when transfer =>
          if ack_i = '1' then
            req_o <= '0';
            read  <= rdata_i;
            state  <= next_state;
          end if;

        -- One from Buddy-Busy. It can be given out once it is marked busy and its link is known.
        when fetch_next =>
          read_word(single, field_next_c, fetch_mark);

        when fetch_mark =>
          behind <= read;
          write_word(single, field_size_c, header(at, not free_bit_g), fetch_fill);

        when fetch_fill =>
          if turn_i = '1' then
            kept_o       <= 0;
            moving_o     <= '0';
            single     <= shorten(behind);
            has_single <= not behind(0);
            state       <= fetch_unlink;
          end if;

        when fetch_unlink =>
          if has_single = '0' then
            state <= keep;
          else
            write_word(single, field_previous_c, nothing_c, keep);
          end if;

        -- Two from Buddy-Free: the left one first, so that it is given out first.
        when split_next =>
          read_word(pair, field_next_c, split_left);

        when split_left =>
          behind <= read;
          write_word(pair, field_size_c, header(at, not free_bit_g), split_fill);

        when split_fill =>
          if turn_i = '1' then
            -- It may be given out and freed from now on.
            moving_o <= '0';
            kept_o   <= 1;
            state   <= split_right;
          end if;

        when split_right =>
          write_word(pair or size, field_size_c, header(at, not free_bit_g), split_last);

        when split_last =>
          if turn_i = '1' then
            kept_o     <= 0;
            pair     <= shorten(behind);
            has_pair <= not behind(0);
            state     <= keep;
          end if;

        -- A pair as one block. Who has asked writes its header.
        when pair_next =>
          read_word(pair, field_next_c, pair_give);

        when pair_give =>
          pair     <= shorten(read);
          has_pair <= not read(0);
          state     <= keep;

        -- The oldest block of the buffer goes to a list.
        when drain_take =>
          moved    <= place_i;
          moving_o <= '1';
          if whole = '1' then
            state <= single_size;
          else
            state <= drain_buddy;
          end if;

        when drain_buddy =>
          read_word(buddy, field_size_c, drain_check);

        when drain_check =>
          ahead <= nothing_c;
          state <= single_size;
          if read = header(at, free_bit_g) then
            state <= unlink_previous;
            if first = '1' then
              state <= unlink_next;
            end if;
          end if;

        when single_size =>
          write_word(moved, field_size_c, header(at, free_bit_g), single_previous);

        when single_previous =>
          write_word(moved, field_previous_c, nothing_c, single_next);

        when single_next =>
          write_word(moved, field_next_c, link(single, has_single), single_old);

        when single_old =>
          if has_single = '0' then
            state <= single_list;
          else
            write_word(single, field_previous_c, long(moved), single_list);
          end if;

        when single_list =>
          single     <= moved;
          has_single <= '1';
          state       <= keep;

        -- The buddy is on Buddy-Busy (doc/decisions.md, 4): off with it.
        when unlink_previous =>
          read_word(buddy, field_previous_c, unlink_next);

        when unlink_next =>
          if first = '0' then
            ahead <= read;
          end if;
          read_word(buddy, field_next_c, unlink_ahead);

        when unlink_ahead =>
          behind <= read;
          if ahead(0) = '1' then
            single     <= shorten(read);
            has_single <= not read(0);
            state       <= unlink_behind;
          else
            write_word(shorten(ahead), field_next_c, read, unlink_behind);
          end if;

        when unlink_behind =>
          if behind(0) = '1' then
            state <= join_mark;
          else
            write_word(shorten(behind), field_previous_c, ahead, join_mark);
          end if;

        when join_mark =>
          if recombine_g then
            -- The joined block is on its way into a buffer: busy.
            joined := header(above, not free_bit_g);
            write_word(left_one, field_size_c, joined, join_up);
          else
            write_word(moved, field_size_c, header(at, free_bit_g), join_list);
          end if;

        when join_list =>
          write_word(left_one, field_next_c, link(pair, has_pair), join_end);

        when join_end =>
          pair     <= left_one;
          has_pair <= '1';
          state     <= keep;

        when join_up =>
          if turn_i = '1' then
            kept_above_o <= '0';
            state       <= keep;
          end if;

        -- The lists as they are now. Only here, so that they are never seen half changed.
        when keep =>
          for k in set_t'range loop
            if at(k) = '1' then
              listed(k) <= has_single;
              paired(k) <= has_pair;
            end if;
          end loop;
          fetching_o   <= '0';
          draining_o   <= '0';
          moving_o     <= '0';
          kept_above_o <= '0';
          state        <= idle;

      end case;

      if rst_i = '1' then
        state        <= idle;
        req_o        <= '0';
        at           <= (others => '0');
        listed       <= (others => '0');
        paired       <= (others => '0');
        kept_o       <= 0;
        kept_above_o <= '0';
        fetching_o   <= '0';
        draining_o   <= '0';
        moving_o     <= '0';
      end if;
    end if;
  end process run;

end architecture rtl;
