-- SPDX-License-Identifier: MIT
-- The RAM index controller of one index (thesis, section 5.4.1): keeps the lists Buddy-Busy and Buddy-Free in memory,
-- and the Free-Buffer between its marks. It does one thing at a time, to its end: each is a fixed sequence of at most
-- seven transfers, so whoever waits for it waits for two of these at most. doc/ohebs.md has the sequences.
--
-- recombine_g chooses what becomes of two buddies that meet on their way to the lists: false, Estranged Buddy, they go
-- to Buddy-Free as a pair; true, the thesis's section 7.3, they go up as one block, into the next index's buffer.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity ram_index_controller is
  generic (
    index_g     : natural range 4 to 31 := 4;  -- blocks of 2**index_g bytes
    depth_g     : positive              := 8;
    recombine_g : boolean               := false;
    free_bit_g  : std_ulogic            := '0'
  );
  port (
    clk_i        : in    std_ulogic;
    rst_i        : in    std_ulogic;
    whole_i      : in    std_ulogic;  -- a block of this size is the whole heap: it has no buddy
    flush_i      : in    std_ulogic;  -- empty the buffer
    low_i        : in    natural range 0 to 63;
    high_i       : in    natural range 0 to 63;
    -- What the processor waits for.
    wants_i      : in    std_ulogic;  -- a block, and the buffer has none
    stuck_i      : in    std_ulogic;  -- to free one, and there is no room
    pair_i       : in    std_ulogic;  -- a pair
    pair_done_o  : out   std_ulogic;
    pair_none_o  : out   std_ulogic;
    pair_addr_o  : out   word_t;
    -- The buffer's lower end.
    count_i      : in    natural range 0 to depth_g;
    drainable_i  : in    std_ulogic;
    bottom_i     : in    word_t;
    reservable_i : in    std_ulogic_vector(1 downto 0);
    drain_o      : out   std_ulogic;
    reserve_o    : out   std_ulogic_vector(1 downto 0);
    fill_o       : out   std_ulogic;
    fill_value_o : out   word_t;
    -- What there is.
    listed_o     : out   std_ulogic;  -- one of the lists has a block
    paired_o     : out   std_ulogic;  -- Buddy-Free has one
    moving_o     : out   std_ulogic;  -- a block is on its way to or from the lists
    moved_o      : out   word_t;      -- which
    idle_o       : out   std_ulogic;
    -- Two buddies that have become one block of the next size.
    up_o         : out   std_ulogic;
    up_addr_o    : out   word_t;
    up_done_i    : in    std_ulogic;
    -- Memory.
    req_o        : out   std_ulogic;
    we_o         : out   std_ulogic;
    addr_o       : out   word_t;
    wdata_o      : out   word_t;
    ack_i        : in    std_ulogic;
    rdata_i      : in    word_t
  );
end entity ram_index_controller;

architecture rtl of ram_index_controller is

  type state_t is (
    idle, transfer,
    fetch_next, fetch_mark, fetch_fill, fetch_unlink,
    split_next, split_left, split_fill, split_right, split_last,
    pair_next, pair_give,
    drain_take, drain_buddy, drain_check, single_size, single_previous, single_next, single_old, single_list,
    unlink_previous, unlink_next, unlink_ahead, unlink_behind, join_mark, join_list, join_end, join_up
  );

  constant size_c : word_t := std_ulogic_vector(shift_left(to_unsigned(1, 32), index_g));
  constant free_c : word_t := size_c(31 downto 1) & free_bit_g;
  constant busy_c : word_t := size_c(31 downto 1) & not free_bit_g;
  -- The joined block is on its way into a buffer: busy.
  constant joined_c : word_t := size_c(30 downto 1) & '0' & not free_bit_g;

  signal state, next_state : state_t;

  signal singles : word_t;  -- Buddy-Busy
  signal pairs   : word_t;  -- Buddy-Free
  signal moved   : word_t;  -- the block in work; of a pair, the left one
  signal ahead   : word_t;
  signal behind  : word_t;
  signal read    : word_t;

begin

  listed_o    <= '1' when singles /= nothing_c or pairs /= nothing_c else '0';
  paired_o    <= '1' when pairs /= nothing_c else '0';
  idle_o      <= '1' when state = idle else '0';
  moved_o     <= moved;
  up_addr_o   <= moved and not size_c;
  up_o        <= '1' when state = join_up else '0';
  pair_addr_o <= moved;
  pair_done_o <= '1' when state = pair_give else '0';
  -- Only while idle, and with nothing else coming: the list may be about to get one.
  pair_none_o <= '1' when state = idle and pairs = nothing_c else '0';

  fill_o       <= '1' when state = fetch_fill or state = split_fill or state = split_last else '0';
  fill_value_o <= (moved or size_c) when state = split_last else moved;

  run : process (clk_i) is

    procedure read_word (from : word_t; offset : natural; and_then : state_t) is
    begin
      req_o      <= '1';
      we_o       <= '0';
      addr_o     <= plus(from, offset);
      next_state <= and_then;
      state      <= transfer;
    end procedure read_word;

    procedure write_word (into : word_t; offset : natural; value : word_t; and_then : state_t) is
    begin
      req_o      <= '1';
      we_o       <= '1';
      addr_o     <= plus(into, offset);
      wdata_o    <= value;
      next_state <= and_then;
      state      <= transfer;
    end procedure write_word;

  begin
    if rising_edge(clk_i) then

      case state is

        -- What the processor waits for comes first; then the marks. The buffer takes back its grant in the same cycle
        -- if the processor is quicker, so a drain is confirmed in drain_take and a place in reserve_o.
        when idle =>
          moving_o <= '0';
          if pair_i = '1' and pairs /= nothing_c then
            moved <= pairs;
            state <= pair_next;
          elsif reserve_o(0) = '1' then
            moved    <= singles;
            moving_o <= '1';
            state    <= fetch_next;
          elsif reserve_o(1) = '1' then
            moved    <= pairs;
            moving_o <= '1';
            state    <= split_next;
          elsif drain_o = '1' then
            moved    <= bottom_i;
            moving_o <= '1';
            state    <= drain_take;
          end if;

        when transfer =>
          if ack_i = '1' then
            req_o <= '0';
            read  <= rdata_i;
            state <= next_state;
          end if;

        -- One from Buddy-Busy. It can be given out once it is marked busy and its link is known.
        when fetch_next =>
          read_word(moved, field_next_c, fetch_mark);

        when fetch_mark =>
          singles <= read;
          write_word(moved, field_size_c, busy_c, fetch_fill);

        when fetch_fill =>
          state    <= fetch_unlink;
          moving_o <= '0';

        when fetch_unlink =>
          if singles = nothing_c then
            state <= idle;
          else
            write_word(singles, field_previous_c, nothing_c, idle);
          end if;

        -- Two from Buddy-Free: the left one first, so that it is given out first.
        when split_next =>
          read_word(moved, field_next_c, split_left);

        when split_left =>
          pairs <= read;
          write_word(moved, field_size_c, busy_c, split_fill);

        -- From here on the left one may be given out and freed again: it is not on its way any more.
        when split_fill =>
          state    <= split_right;
          moving_o <= '0';

        when split_right =>
          write_word(moved or size_c, field_size_c, busy_c, split_last);

        when split_last =>
          moving_o <= '0';
          state    <= idle;

        -- A pair as one block. Who has asked writes its header.
        when pair_next =>
          read_word(moved, field_next_c, pair_give);

        when pair_give =>
          pairs <= read;
          state <= idle;

        -- The oldest block of the buffer goes to a list.
        when drain_take =>
          if whole_i = '1' then
            state <= single_size;
          else
            state <= drain_buddy;
          end if;

        when drain_buddy =>
          read_word(moved xor size_c, field_size_c, drain_check);

        when drain_check =>
          if read = free_c then
            if singles = (moved xor size_c) then
              ahead <= nothing_c;
              state <= unlink_next;
            else
              state <= unlink_previous;
            end if;
          else
            state <= single_size;
          end if;

        when single_size =>
          write_word(moved, field_size_c, free_c, single_previous);

        when single_previous =>
          write_word(moved, field_previous_c, nothing_c, single_next);

        when single_next =>
          write_word(moved, field_next_c, singles, single_old);

        when single_old =>
          if singles = nothing_c then
            state <= single_list;
          else
            write_word(singles, field_previous_c, moved, single_list);
          end if;

        when single_list =>
          singles  <= moved;
          moving_o <= '0';
          state    <= idle;

        -- The buddy is on Buddy-Busy (doc/decisions.md, 4): off with it.
        when unlink_previous =>
          read_word(moved xor size_c, field_previous_c, unlink_next);

        when unlink_next =>
          if singles /= (moved xor size_c) then
            ahead <= read;
          end if;
          read_word(moved xor size_c, field_next_c, unlink_ahead);

        when unlink_ahead =>
          behind <= read;
          if ahead = nothing_c then
            singles <= read;
            state   <= unlink_behind;
          else
            write_word(ahead, field_next_c, read, unlink_behind);
          end if;

        when unlink_behind =>
          if behind = nothing_c then
            state <= join_mark;
          else
            write_word(behind, field_previous_c, ahead, join_mark);
          end if;

        when join_mark =>
          if recombine_g then
            write_word(moved and not size_c, field_size_c, joined_c, join_up);
          else
            write_word(moved, field_size_c, free_c, join_list);
          end if;

        when join_list =>
          write_word(moved and not size_c, field_next_c, pairs, join_end);

        when join_end =>
          pairs    <= moved and not size_c;
          moving_o <= '0';
          state    <= idle;

        when join_up =>
          if up_done_i = '1' then
            moving_o <= '0';
            state    <= idle;
          end if;

      end case;

      if rst_i = '1' then
        state    <= idle;
        req_o    <= '0';
        moving_o <= '0';
        singles  <= nothing_c;
        pairs    <= nothing_c;
      end if;
    end if;
  end process run;

  -- What to begin, seen with the buffer's present state.
  decide : process (all) is

    variable is_low : boolean;

  begin
    reserve_o <= "00";
    drain_o   <= '0';
    is_low := wants_i = '1' or (count_i < low_i and flush_i = '0');
    if state = idle and not (pair_i = '1' and pairs /= nothing_c) then
      if is_low and singles /= nothing_c and reservable_i(0) = '1' then
        reserve_o <= "01";
      elsif is_low and pairs /= nothing_c and reservable_i(1) = '1' then
        reserve_o <= "10";
      elsif (stuck_i = '1' or flush_i = '1' or count_i > high_i) and drainable_i = '1' then
        drain_o <= '1';
      end if;
    end if;
  end process decide;

end architecture rtl;
