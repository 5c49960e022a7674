-- All indices of OHEBS with one RAM index controller among them, one ring of buffers in block RAM, and the lists' heads
-- in a small RAM: a fraction of the area of an index_component for each. What each index keeps for itself is a count
-- and where its newest block is. It does what the components do, by the same sequences (ram_index_controller), one
-- index at a time; doc/ohebs.md has what differs: parts of a cut block go into their buffers one a cycle, and a free
-- looks through its buffer for the block it may have been freed to before.
--
-- Two machines share the buffers. The front serves the processor; the back keeps the lists and touches a buffer only in
-- cycles in which the front rests or waits for it (`yields`).
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity shared_indices is
  generic (
    min_log2_g  : natural range 4 to 29 := 4;
    heap_log2_g : natural range 5 to 30 := 25;
    depths_g    : per_index_t           := (others => 8);
    recombine_g : boolean               := false;
    free_bit_g  : std_ulogic            := '0'
  );
  port (
    clk_i       : in    std_ulogic;
    rst_i       : in    std_ulogic;
    heap_i      : in    word_t;      -- one-hot: the heap's size
    flush_i     : in    std_ulogic;
    lows_i      : in    per_index_t;
    highs_i     : in    per_index_t;
    enable_i    : in    word_t;
    op_i        : in    index_op_t;
    addr_i      : in    word_t;
    done_o      : out   word_t;
    refused_o   : out   word_t;
    answer_o    : out   word_t;
    available_o : out   word_t;
    paired_o    : out   word_t;
    rest_o      : out   word_t;
    -- Memory.
    req_o       : out   std_ulogic;
    we_o        : out   std_ulogic;
    addr_o      : out   word_t;
    wdata_o     : out   word_t;
    ack_i       : in    std_ulogic;
    rdata_i     : in    word_t
  );
end entity shared_indices;

architecture rtl of shared_indices is

  -- Places of one ring: a power of two, of which an index uses as many as its depth.
  function ring_bits (depths : per_index_t) return natural is
    variable result : natural := 1;
  begin
    for i in min_log2_g to heap_log2_g loop
      while 2 ** result < depths(i) loop
        result := result + 1;
      end loop;
    end loop;
    return result;
  end function ring_bits;

  constant ring_c : natural := ring_bits(depths_g);

  -- A block's address without the bits that are always zero.
  subtype short_t is std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);

  subtype position_t is unsigned(ring_c - 1 downto 0);

  subtype count_t is unsigned(ring_c downto 0);

  subtype set_t is std_ulogic_vector(heap_log2_g downto min_log2_g);

  type shorts_t is array (natural range <>) of short_t;

  type positions_t is array (min_log2_g to heap_log2_g) of position_t;

  type counts_t is array (min_log2_g to heap_log2_g) of count_t;

  type front_t is (rest, look, pop, scan, push, pairing, told);

  type task_t is (fetch, give_pair, drain);

  type back_t is (
    idle, load, start, transfer,
    fetch_next, fetch_mark, fetch_fill, fetch_unlink,
    split_next, split_left, split_fill, split_right, split_last,
    pair_next, pair_give,
    drain_take, drain_buddy, drain_check, single_size, single_previous, single_next, single_old, single_list,
    unlink_previous, unlink_next, unlink_ahead, unlink_behind, join_mark, join_list, join_end, join_up, keep
  );

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

  function widen (set : set_t) return word_t is
    variable result : word_t := (others => '0');
  begin
    result(set_t'range) := set;
    return result;
  end function widen;

  -- The buffers and the lists' heads. An index's part of a RAM is chosen by its number.
  signal places             : shorts_t(0 to 2 ** (5 + ring_c) - 1);
  signal place              : short_t;  -- what has been read
  signal singles, pairs     : shorts_t(0 to 31);
  signal counts             : counts_t;
  signal tops               : positions_t;
  signal listed, paired     : set_t;

  -- What the marks and the places say of each index, now.
  signal has, room, room_2  : set_t;
  signal is_low, is_high    : set_t;

  signal front              : front_t;
  signal pick               : set_t;    -- one-hot: the index that the front works on
  signal left               : set_t;    -- of a cut, those that still get a part
  signal answer             : short_t;
  signal refuses            : std_ulogic;
  signal yields             : std_ulogic;
  signal pick_room          : std_ulogic;
  signal coming             : std_ulogic;
  signal freed              : short_t;
  signal scanned            : count_t;
  signal position           : position_t;

  signal back, next_back    : back_t;
  signal job                : task_t;
  signal for_marks          : std_ulogic;
  signal at                 : set_t;    -- one-hot: the index that the back works on
  signal at_number          : unsigned(4 downto 0);
  signal above              : set_t;
  signal size               : short_t;  -- the same as an address
  signal kept               : natural range 0 to 2;  -- places there, for what is being fetched
  signal kept_above         : std_ulogic;            -- a place above, for what may rise
  signal fetching, draining : std_ulogic;
  signal moving             : std_ulogic;            -- `moved` is in no buffer, and on no list or about to leave it
  signal moved              : short_t;
  signal single, pair       : short_t;
  signal has_single         : std_ulogic;
  signal has_pair           : std_ulogic;
  signal ahead, behind      : word_t;
  signal read               : word_t;
  signal whole              : std_ulogic;
  signal buddy, left_one    : short_t;

  -- The one index whose count changes in this cycle, and how.
  signal chosen             : set_t;
  signal number             : unsigned(4 downto 0);
  signal count              : count_t;
  signal top                : position_t;
  signal adds, takes        : std_ulogic;
  signal moves_top          : std_ulogic;
  signal read_at, write_at  : position_t;
  signal writes             : std_ulogic;
  signal value              : short_t;

begin

  look_at_all : process (all) is
  begin
    for k in set_t'range loop
      has(k)     <= '1' when counts(k) /= 0 else '0';
      room(k)    <= '1' when counts(k) < depths_g(k) else '0';
      room_2(k)  <= '1' when counts(k) + 1 < depths_g(k) else '0';
      is_low(k)  <= '1' when counts(k) < lows_i(k) and flush_i = '0' and (listed(k) = '1' or paired(k) = '1') else '0';
      is_high(k) <= '1' when counts(k) > highs_i(k) or (flush_i = '1' and counts(k) /= 0) else '0';
    end loop;
  end process look_at_all;

  above <= at(heap_log2_g - 1 downto min_log2_g) & '0';

  -- An allocation waits for what is on its way; a find counts on a block that goes to the lists, unless it may go up.
  report_all : process (all) is
  begin
    available_o <= (others => '0');
    paired_o    <= widen(paired);
    rest_o      <= (others => '1');
    for k in set_t'range loop
      available_o(k) <= has(k) or listed(k) or paired(k);
      if at(k) = '1' and (fetching = '1' or (draining = '1' and not recombine_g)) then
        available_o(k) <= '1';
      end if;
      if has(k) = '1' or back /= idle then
        rest_o(k) <= '0';
      end if;
    end loop;
  end process report_all;

  coming <= or_all(pick and (listed or paired)) or (or_all(pick and at) and (fetching or draining));

  pick_room <= '1' when or_all(pick and room) = '1' and
               not (or_all(pick and at) = '1' and (kept = 2 or (kept = 1 and or_all(pick and room_2) = '0'))) and
               not (or_all(pick and above) = '1' and kept_above = '1' and or_all(pick and room_2) = '0') else '0';

  -- In these cycles the front changes nothing and reads nothing.
  with front select yields <=
    not or_all(enable_i) when rest,
    not or_all(pick and has) when look,
    not pick_room when push,
    '1' when pairing,
    '0' when others;

  done_o    <= enable_i when front = told and refuses = '0' else (others => '0');
  refused_o <= enable_i when front = told and refuses = '1' else (others => '0');
  answer_o  <= long(answer);

  choose : process (all) is
  begin
    chosen <= pick;
    if yields = '1' then
      chosen <= at;
      if back = join_up then
        chosen <= above;
      end if;
    end if;
  end process choose;

  number <= to_unsigned(bit_number(widen(chosen)), 5);

  look_up : process (all) is

    variable count_of : count_t;
    variable top_of   : position_t;

  begin
    count_of := (others => '0');
    top_of := (others => '0');
    for k in set_t'range loop
      if chosen(k) = '1' then
        count_of := count_of or counts(k);
        top_of := top_of or tops(k);
      end if;
    end loop;
    count <= count_of;
    top   <= top_of;
  end process look_up;

  -- At most one of the two changes a buffer: the front at its top end, the back at its bottom end or, with what rises,
  -- at the top.
  act : process (all) is
  begin
    adds      <= '0';
    takes     <= '0';
    moves_top <= '0';
    writes    <= '0';
    write_at  <= top + 1;
    value     <= freed;
    read_at   <= position;
    if front = look then
      read_at <= top;
    end if;
    if front = pop then
      takes     <= '1';
      moves_top <= '1';
    elsif front = push and pick_room = '1' then
      adds      <= '1';
      moves_top <= '1';
      writes    <= '1';
      if op_i = index_part_c then
        value <= freed or shorten(widen(pick));
      end if;
    elsif yields = '1' then

      case back is

        when start =>
          read_at <= top - resize(count, ring_c) + 1;
          if job = drain and count /= 0 and (for_marks = '0' or or_all(at and is_high) = '1')
             and not (recombine_g and whole = '0' and or_all(above and room) = '0') then
            takes <= '1';
          end if;

        when fetch_fill =>
          value    <= single;
          write_at <= top - resize(count, ring_c);
          writes   <= '1';
          adds     <= '1';

        when split_fill | split_last =>
          value    <= pair;
          write_at <= top - resize(count, ring_c);
          writes   <= '1';
          adds     <= '1';
          if back = split_last then
            value <= pair or size;
          end if;

        when join_up =>
          value     <= left_one;
          writes    <= '1';
          adds      <= '1';
          moves_top <= '1';

        when others =>
          null;

      end case;

    end if;
  end process act;

  keep_buffers : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      place <= places(to_integer(number & read_at));
      if writes = '1' then
        places(to_integer(number & write_at)) <= value;
      end if;
      for k in set_t'range loop
        if chosen(k) = '1' then
          if adds = '1' then
            counts(k) <= count + 1;
          elsif takes = '1' then
            counts(k) <= count - 1;
          end if;
          if moves_top = '1' and adds = '1' then
            tops(k) <= top + 1;
          elsif moves_top = '1' then
            tops(k) <= top - 1;
          end if;
        end if;
      end loop;
      if rst_i = '1' then
        counts <= (others => (others => '0'));
        tops   <= (others => (others => '0'));
      end if;
    end if;
  end process keep_buffers;

  run_front : process (clk_i) is

    variable others_left : set_t;

  begin
    if rising_edge(clk_i) then

      case front is

        when rest =>
          refuses <= '0';
          freed   <= shorten(addr_i);
          left    <= enable_i(set_t'range);
          pick    <= lowest(enable_i(set_t'range));
          if or_all(enable_i) = '1' then
            if op_i = index_part_c then
              front <= push;
            elsif op_i = index_pair_c then
              front <= pairing;
            else
              front <= look;
            end if;
          end if;

        -- An allocation with an empty buffer waits here for the back. A free begins to look for its block.
        when look =>
          position <= top - 1;
          scanned  <= count;
          if op_i = index_alloc_c then
            if or_all(pick and has) = '1' then
              front <= pop;
            elsif coming = '0' then
              refuses <= '1';
              front   <= told;
            end if;
          elsif or_all(pick and at) = '1' and moving = '1' and moved = freed then
            refuses <= '1';
            front   <= told;
          elsif or_all(pick and has) = '1' then
            front <= scan;
          else
            front <= push;
          end if;

        when pop =>
          answer <= place;
          front  <= told;

        -- Newest first; the place that was asked for in the last cycle is there now.
        when scan =>
          position <= position - 1;
          scanned  <= scanned - 1;
          if place = freed then
            refuses <= '1';
            front   <= told;
          elsif scanned = 1 then
            front <= push;
          end if;

        when push =>
          if pick_room = '1' then
            others_left := left and not pick;
            left <= others_left;
            pick <= lowest(others_left);
            if or_all(others_left) = '0' or op_i /= index_part_c then
              front <= told;
            end if;
          end if;

        when pairing =>
          if back = pair_give then
            answer <= pair;
            front  <= told;
          elsif back = idle and or_all(pick and paired) = '0' then
            refuses <= '1';
            front   <= told;
          end if;

        when told =>
          front <= rest;

      end case;

      if rst_i = '1' then
        front <= rest;
        pick  <= (others => '0');
      end if;
    end if;
  end process run_front;

  keep_heads : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      if back = keep then
        singles(to_integer(at_number)) <= single;
        pairs(to_integer(at_number))   <= pair;
      end if;
    end if;
  end process keep_heads;

  at_number <= to_unsigned(bit_number(widen(at)), 5);

  size     <= shorten(widen(at));
  buddy    <= moved xor size;
  left_one <= moved and not size;

  run_back : process (clk_i) is

    procedure read_word (from : short_t; offset : natural; and_then : back_t) is
    begin
      req_o     <= '1';
      we_o      <= '0';
      addr_o    <= long(from) or std_ulogic_vector(to_unsigned(offset, 32));
      next_back <= and_then;
      back      <= transfer;
    end procedure read_word;

    procedure write_word (into : short_t; offset : natural; new_word : word_t; and_then : back_t) is
    begin
      req_o     <= '1';
      we_o      <= '1';
      addr_o    <= long(into) or std_ulogic_vector(to_unsigned(offset, 32));
      wdata_o   <= new_word;
      next_back <= and_then;
      back      <= transfer;
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

      case back is

        -- What the processor waits for comes first; then the marks.
        when idle =>
          at        <= pick;
          for_marks <= '0';
          if front = look and op_i = index_alloc_c and or_all(pick and has) = '0' and coming = '1' then
            job  <= fetch;
            back <= load;
          elsif front = pairing and or_all(pick and paired) = '1' then
            job  <= give_pair;
            back <= load;
          elsif front = push and pick_room = '0' then
            job  <= drain;
            back <= load;
          elsif or_all(is_low) = '1' then
            at        <= lowest(is_low);
            for_marks <= '1';
            job       <= fetch;
            back      <= load;
          elsif or_all(is_high) = '1' then
            at        <= lowest(is_high);
            for_marks <= '1';
            job       <= drain;
            back      <= load;
          end if;

        when load =>
          single     <= singles(to_integer(at_number));
          pair       <= pairs(to_integer(at_number));
          has_single <= or_all(at and listed);
          has_pair   <= or_all(at and paired);
          whole      <= or_all(widen(at) and heap_i);
          back       <= start;

        -- Is it still so? The front may have been quicker.
        when start =>
          if yields = '1' then
            moved <= single;
            if has_single = '0' then
              moved <= pair;
            end if;
            if job = give_pair then
              if has_pair = '1' then
                back <= pair_next;
              else
                back <= idle;
              end if;
            elsif job = fetch then
              if (for_marks = '1' and or_all(at and is_low) = '0') or (has_single = '0' and has_pair = '0') then
                back <= idle;
              elsif has_single = '1' and or_all(at and room) = '1' then
                fetching <= '1';
                moving   <= '1';
                kept     <= 1;
                back     <= fetch_next;
              elsif has_single = '0' and or_all(at and room_2) = '1' then
                fetching <= '1';
                moving   <= '1';
                kept     <= 2;
                back     <= split_next;
              else
                back <= idle;
              end if;
            elsif or_all(at and has) = '0' or (for_marks = '1' and or_all(at and is_high) = '0') then
              back <= idle;
            elsif recombine_g and whole = '0' and or_all(above and room) = '0' then
              -- What may rise needs a place: one of those above goes first.
              at        <= above;
              for_marks <= '0';
              back      <= load;
            else
              draining <= '1';
              if recombine_g and whole = '0' then
                kept_above <= '1';
              end if;
              back <= drain_take;
            end if;
          end if;

        when transfer =>
          if ack_i = '1' then
            req_o <= '0';
            read  <= rdata_i;
            back  <= next_back;
          end if;

        -- One from Buddy-Busy. It can be given out once it is marked busy and its link is known.
        when fetch_next =>
          read_word(single, field_next_c, fetch_mark);

        when fetch_mark =>
          behind <= read;
          write_word(single, field_size_c, header(at, not free_bit_g), fetch_fill);

        when fetch_fill =>
          if yields = '1' then
            kept       <= 0;
            moving     <= '0';
            single     <= shorten(behind);
            has_single <= not behind(0);
            back       <= fetch_unlink;
          end if;

        when fetch_unlink =>
          if has_single = '0' then
            back <= keep;
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
          if yields = '1' then
            -- It may be given out and freed from now on.
            moving <= '0';
            kept   <= 1;
            back   <= split_right;
          end if;

        when split_right =>
          write_word(pair or size, field_size_c, header(at, not free_bit_g), split_last);

        when split_last =>
          if yields = '1' then
            kept     <= 0;
            pair     <= shorten(behind);
            has_pair <= not behind(0);
            back     <= keep;
          end if;

        -- A pair as one block. Who has asked writes its header.
        when pair_next =>
          read_word(pair, field_next_c, pair_give);

        when pair_give =>
          pair     <= shorten(read);
          has_pair <= not read(0);
          back     <= keep;

        -- The oldest block of the buffer goes to a list.
        when drain_take =>
          moved  <= place;
          moving <= '1';
          if whole = '1' then
            back <= single_size;
          else
            back <= drain_buddy;
          end if;

        when drain_buddy =>
          read_word(buddy, field_size_c, drain_check);

        when drain_check =>
          if read = header(at, free_bit_g) then
            if has_single = '1' and single = buddy then
              ahead <= nothing_c;
              back  <= unlink_next;
            else
              back <= unlink_previous;
            end if;
          else
            back <= single_size;
          end if;

        when single_size =>
          write_word(moved, field_size_c, header(at, free_bit_g), single_previous);

        when single_previous =>
          write_word(moved, field_previous_c, nothing_c, single_next);

        when single_next =>
          write_word(moved, field_next_c, link(single, has_single), single_old);

        when single_old =>
          if has_single = '0' then
            back <= single_list;
          else
            write_word(single, field_previous_c, long(moved), single_list);
          end if;

        when single_list =>
          single     <= moved;
          has_single <= '1';
          back       <= keep;

        -- The buddy is on Buddy-Busy (doc/decisions.md, 4): off with it.
        when unlink_previous =>
          read_word(buddy, field_previous_c, unlink_next);

        when unlink_next =>
          if not (has_single = '1' and single = buddy) then
            ahead <= read;
          end if;
          read_word(buddy, field_next_c, unlink_ahead);

        when unlink_ahead =>
          behind <= read;
          if ahead(0) = '1' then
            single     <= shorten(read);
            has_single <= not read(0);
            back       <= unlink_behind;
          else
            write_word(shorten(ahead), field_next_c, read, unlink_behind);
          end if;

        when unlink_behind =>
          if behind(0) = '1' then
            back <= join_mark;
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
          back     <= keep;

        when join_up =>
          if yields = '1' then
            kept_above <= '0';
            back       <= keep;
          end if;

        -- The lists as they are now. Only here, so that they are never seen half changed.
        when keep =>
          for k in set_t'range loop
            if at(k) = '1' then
              listed(k) <= has_single;
              paired(k) <= has_pair;
            end if;
          end loop;
          fetching   <= '0';
          draining   <= '0';
          moving     <= '0';
          kept_above <= '0';
          back       <= idle;

      end case;

      if rst_i = '1' then
        back       <= idle;
        req_o      <= '0';
        at         <= (others => '0');
        listed     <= (others => '0');
        paired     <= (others => '0');
        kept       <= 0;
        kept_above <= '0';
        fetching   <= '0';
        draining   <= '0';
        moving     <= '0';
      end if;
    end if;
  end process run_back;

end architecture rtl;
