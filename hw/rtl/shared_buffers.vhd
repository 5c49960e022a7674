-- SPDX-License-Identifier: MIT
-- The buffers of all indices, for shared_indices: their places in one block RAM, in which an index's part is chosen by
-- its number; of each index a count, and where its newest block is.
--
-- Two machines use them, the front at the top end and the back at the bottom end or, with what rises, at the top; one
-- at a time (shared_indices). Each names the index that it will be at, front_i and back_i, and has in the next cycle
-- what there is to know of it, and may change it then: what is named and what is changed are a cycle apart, so that
-- neither the choice among all indices nor the arithmetic is in the way of the other.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity shared_buffers is
  generic (
    min_log2_g  : natural     := 4;
    heap_log2_g : natural     := 25;
    depths_g    : per_index_t := (others => 8);
    ring_g      : positive    := 3              -- the largest depth has at most so many bits
  );
  port (
    clk_i         : in    std_ulogic;
    rst_i         : in    std_ulogic;
    lows_i        : in    per_index_t;
    highs_i       : in    per_index_t;
    -- Of each index: whether it has a block, room for one, less than its low mark, more than its high one.
    has_o         : out   std_ulogic_vector(heap_log2_g downto min_log2_g);
    room_o        : out   std_ulogic_vector(heap_log2_g downto min_log2_g);
    low_o         : out   std_ulogic_vector(heap_log2_g downto min_log2_g);
    high_o        : out   std_ulogic_vector(heap_log2_g downto min_log2_g);
    -- The front.
    front_i       : in    std_ulogic_vector(heap_log2_g downto min_log2_g);  -- one-hot
    front_count_o : out   unsigned(ring_g downto 0);
    front_top_o   : out   unsigned(ring_g - 1 downto 0);
    front_room_o  : out   std_ulogic;
    front_two_o   : out   std_ulogic;                                        -- room for two
    front_at_i    : in    unsigned(ring_g - 1 downto 0);                     -- the place that it reads
    pop_i         : in    std_ulogic;
    push_i        : in    std_ulogic;
    push_value_i  : in    std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);
    -- The back.
    back_turn_i   : in    std_ulogic;
    back_i        : in    std_ulogic_vector(heap_log2_g downto min_log2_g);  -- one-hot
    back_has_o    : out   std_ulogic;
    back_room_o   : out   std_ulogic;
    back_two_o    : out   std_ulogic;
    drain_i       : in    std_ulogic;                                        -- the oldest leaves: it is what is read
    fill_i        : in    std_ulogic;                                        -- at the bottom
    rise_i        : in    std_ulogic;                                        -- at the top
    back_value_i  : in    std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);
    -- What has been read in the last cycle.
    place_o       : out   std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0)
  );
end entity shared_buffers;

architecture rtl of shared_buffers is

  subtype set_t is std_ulogic_vector(heap_log2_g downto min_log2_g);

  subtype short_t is std_ulogic_vector(heap_log2_g - min_log2_g - 1 downto 0);

  subtype position_t is unsigned(ring_g - 1 downto 0);

  subtype count_t is unsigned(ring_g downto 0);

  type shorts_t is array (natural range <>) of short_t;

  type positions_t is array (min_log2_g to heap_log2_g) of position_t;

  type counts_t is array (min_log2_g to heap_log2_g) of count_t;

  function number_of (set : set_t) return unsigned is
    variable wide : word_t := (others => '0');
  begin
    wide(set_t'range) := set;
    return to_unsigned(bit_number(wide), 5);
  end function number_of;

  signal places                     : shorts_t(0 to 2 ** (5 + ring_g) - 1);
  signal counts                     : counts_t;
  signal tops                       : positions_t;
  signal has, room, two             : set_t;

  signal front_set, back_set        : set_t;
  signal front_number, back_number  : unsigned(4 downto 0);
  signal front_count, back_count    : count_t;
  signal front_top, back_top        : position_t;

  -- The change of this cycle.
  signal chosen                     : set_t;
  signal number                     : unsigned(4 downto 0);
  signal adds, takes, moves         : std_ulogic;
  signal new_count                  : count_t;
  signal new_top                    : position_t;
  signal read_at, write_at          : position_t;
  signal value                      : short_t;

begin

  look_at_all : process (all) is
  begin
    for k in set_t'range loop
      has(k)    <= '1' when counts(k) /= 0 else '0';
      room(k)   <= '1' when counts(k) < depths_g(k) else '0';
      two(k)    <= '1' when counts(k) + 1 < depths_g(k) else '0';
      low_o(k)  <= '1' when counts(k) < lows_i(k) else '0';
      high_o(k) <= '1' when counts(k) > highs_i(k) else '0';
    end loop;
  end process look_at_all;

  has_o  <= has;
  room_o <= room;

  front_count_o <= front_count;
  front_top_o   <= front_top;

  look_up : process (clk_i) is

    variable count_of : count_t;
    variable top_of   : position_t;

    procedure find (set : set_t) is
    begin
      count_of := (others => '0');
      top_of := (others => '0');
      for k in set_t'range loop
        if set(k) = '1' then
          count_of := count_of or counts(k);
          top_of := top_of or tops(k);
        end if;
      end loop;
    end procedure find;

  begin
    if rising_edge(clk_i) then
      find(front_i);
      front_set    <= front_i;
      front_number <= number_of(front_i);
      front_count  <= count_of;
      front_top    <= top_of;
      front_room_o <= or_all(front_i and room);
      front_two_o  <= or_all(front_i and two);
      find(back_i);
      back_set     <= back_i;
      back_number  <= number_of(back_i);
      back_count   <= count_of;
      back_top     <= top_of;
      back_has_o   <= or_all(back_i and has);
      back_room_o  <= or_all(back_i and room);
      back_two_o   <= or_all(back_i and two);
    end if;
  end process look_up;

  -- What changes a buffer, of the one whose turn it is.
  act : process (all) is
  begin
    if back_turn_i = '1' then
      chosen    <= back_set;
      number    <= back_number;
      adds      <= fill_i or rise_i;
      takes     <= drain_i;
      moves     <= rise_i;
      read_at   <= back_top - resize(back_count, ring_g) + 1;
      write_at  <= back_top - resize(back_count, ring_g);
      value     <= back_value_i;
      new_count <= back_count + 1;
      new_top   <= back_top + 1;
      if rise_i = '1' then
        write_at <= back_top + 1;
      end if;
      if drain_i = '1' then
        new_count <= back_count - 1;
      end if;
    else
      chosen    <= front_set;
      number    <= front_number;
      adds      <= push_i;
      takes     <= pop_i;
      moves     <= push_i or pop_i;
      read_at   <= front_at_i;
      write_at  <= front_top + 1;
      value     <= push_value_i;
      new_count <= front_count + 1;
      new_top   <= front_top + 1;
      if pop_i = '1' then
        new_count <= front_count - 1;
        new_top   <= front_top - 1;
      end if;
    end if;
  end process act;

  keep : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      place_o <= places(to_integer(number & read_at));
      if adds = '1' then
        places(to_integer(number & write_at)) <= value;
      end if;
      for k in set_t'range loop
        if chosen(k) = '1' and (adds = '1' or takes = '1') then
          counts(k) <= new_count;
        end if;
        if chosen(k) = '1' and moves = '1' then
          tops(k) <= new_top;
        end if;
      end loop;
      if rst_i = '1' then
        counts <= (others => (others => '0'));
        tops   <= (others => (others => '0'));
      end if;
    end if;
  end process keep;

end architecture rtl;
