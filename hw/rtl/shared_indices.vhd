-- SPDX-License-Identifier: MIT
-- All indices of OHEBS with one RAM index controller among them, one ring of buffers in block RAM, and the lists' heads
-- in a small RAM: a fraction of the area of an index_component for each. It does what the components do, by the same
-- sequences (ram_index_controller), one index at a time; doc/ohebs.md has what differs: parts of a cut block go into
-- their buffers one a cycle, and a free looks through its buffer for the block it may have been freed to before.
--
-- Two machines share the buffers. The front serves the processor; the back keeps the lists and touches a buffer only in
-- its turn: a cycle behind one in which the front was passive.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity shared_indices is
  generic (
    min_log2_g  : natural range 4 to 30 := 4;
    heap_log2_g : natural range 5 to 31 := 25;
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
    done_o      : out   std_ulogic;
    refused_o   : out   std_ulogic;
    answer_o    : out   word_t;
    available_o : out   word_t;      -- a cycle late, as paired_o is
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

  subtype set_t is std_ulogic_vector(heap_log2_g downto min_log2_g);

  signal enable                    : set_t;
  signal answer                    : short_t;
  signal has, room, low, high      : set_t;
  signal place                     : short_t;

  signal front_index               : set_t;
  signal front_count               : unsigned(ring_c downto 0);
  signal front_top, front_at       : unsigned(ring_c - 1 downto 0);
  signal front_room, front_two     : std_ulogic;
  signal pop, push                 : std_ulogic;
  signal push_value                : short_t;
  signal pick                      : set_t;
  signal needs_block, needs_pair   : std_ulogic;
  signal needs_room, looks         : std_ulogic;
  signal passive                   : std_ulogic;

  signal back_index                : set_t;
  signal back_has, back_room       : std_ulogic;
  signal back_two                  : std_ulogic;
  signal drain, fill, rise         : std_ulogic;
  signal back_value                : short_t;
  signal asks, back_turn           : std_ulogic;
  signal at, listed, paired        : set_t;
  signal fetching, draining        : std_ulogic;
  signal coming                    : std_ulogic;
  signal kept                      : natural range 0 to 2;
  signal kept_above                : std_ulogic;
  signal moving                    : std_ulogic;
  signal moved                     : short_t;
  signal back_idle                 : std_ulogic;
  signal pair                      : std_ulogic;
  signal pair_addr                 : short_t;

begin

  enable <= enable_i(set_t'range);
  coming <= fetching or draining;

  widen : process (all) is
  begin
    answer_o <= (others => '0');
    answer_o(heap_log2_g - 1 downto min_log2_g) <= answer;
    rest_o   <= (others => '1');
    for k in set_t'range loop
      rest_o(k) <= back_idle and not has(k);
    end loop;
  end process widen;

  -- An allocation waits for what is on its way; a find counts on a block that goes to the lists, unless it may go up.
  report_all : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      available_o <= (others => '0');
      paired_o    <= (others => '0');
      for k in set_t'range loop
        available_o(k) <= has(k) or listed(k) or paired(k);
        if at(k) = '1' and (fetching = '1' or (draining = '1' and not recombine_g)) then
          available_o(k) <= '1';
        end if;
        paired_o(k) <= paired(k);
      end loop;
    end if;
  end process report_all;

  take_turns : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      back_turn <= asks and passive and not rst_i;
    end if;
  end process take_turns;

  buffers : entity work.shared_buffers
    generic map (
      min_log2_g  => min_log2_g,
      heap_log2_g => heap_log2_g,
      depths_g    => depths_g,
      ring_g      => ring_c
    )
    port map (
      clk_i         => clk_i,
      rst_i         => rst_i,
      lows_i        => lows_i,
      highs_i       => highs_i,
      has_o         => has,
      room_o        => room,
      low_o         => low,
      high_o        => high,
      front_i       => front_index,
      front_count_o => front_count,
      front_top_o   => front_top,
      front_room_o  => front_room,
      front_two_o   => front_two,
      front_at_i    => front_at,
      pop_i         => pop,
      push_i        => push,
      push_value_i  => push_value,
      back_turn_i   => back_turn,
      back_i        => back_index,
      back_has_o    => back_has,
      back_room_o   => back_room,
      back_two_o    => back_two,
      drain_i       => drain,
      fill_i        => fill,
      rise_i        => rise,
      back_value_i  => back_value,
      place_o       => place
    );

  front : entity work.shared_front
    generic map (
      min_log2_g  => min_log2_g,
      heap_log2_g => heap_log2_g,
      ring_g      => ring_c
    )
    port map (
      clk_i         => clk_i,
      rst_i         => rst_i,
      enable_i      => enable,
      op_i          => op_i,
      addr_i        => addr_i(heap_log2_g - 1 downto min_log2_g),
      done_o        => done_o,
      refused_o     => refused_o,
      answer_o      => answer,
      index_o       => front_index,
      count_i       => front_count,
      top_i         => front_top,
      room_i        => front_room,
      two_i         => front_two,
      at_o          => front_at,
      pop_o         => pop,
      push_o        => push,
      push_value_o  => push_value,
      place_i       => place,
      pick_o        => pick,
      needs_block_o => needs_block,
      needs_pair_o  => needs_pair,
      needs_room_o  => needs_room,
      looks_o       => looks,
      passive_o     => passive,
      back_turn_i   => back_turn,
      at_i          => at,
      listed_i      => listed,
      paired_i      => paired,
      coming_i      => coming,
      kept_i        => kept,
      kept_above_i  => kept_above,
      moving_i      => moving,
      moved_i       => moved,
      back_idle_i   => back_idle,
      pair_i        => pair,
      pair_addr_i   => pair_addr
    );

  back : entity work.shared_back
    generic map (
      min_log2_g  => min_log2_g,
      heap_log2_g => heap_log2_g,
      recombine_g => recombine_g,
      free_bit_g  => free_bit_g
    )
    port map (
      clk_i         => clk_i,
      rst_i         => rst_i,
      heap_i        => heap_i(set_t'range),
      flush_i       => flush_i,
      low_i         => low,
      high_i        => high,
      pick_i        => pick,
      needs_block_i => needs_block,
      needs_pair_i  => needs_pair,
      needs_room_i  => needs_room,
      looks_i       => looks,
      pair_o        => pair,
      pair_addr_o   => pair_addr,
      idle_o        => back_idle,
      at_o          => at,
      listed_o      => listed,
      paired_o      => paired,
      fetching_o    => fetching,
      draining_o    => draining,
      kept_o        => kept,
      kept_above_o  => kept_above,
      moving_o      => moving,
      moved_o       => moved,
      asks_o        => asks,
      turn_i        => back_turn,
      has_i         => has,
      room_i        => room,
      index_o       => back_index,
      at_has_i      => back_has,
      at_room_i     => back_room,
      at_two_i      => back_two,
      drain_o       => drain,
      fill_o        => fill,
      rise_o        => rise,
      value_o       => back_value,
      place_i       => place,
      req_o         => req_o,
      we_o          => we_o,
      addr_o        => addr_o,
      wdata_o       => wdata_o,
      ack_i         => ack_i,
      rdata_i       => rdata_i
    );

end architecture rtl;
