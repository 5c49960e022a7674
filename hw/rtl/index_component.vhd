-- SPDX-License-Identifier: MIT
-- One index of OHEBS (thesis, section 5.4.1): a Free-Buffer between the processor and the two lists of one block size.
-- doc/ohebs.md has what it promises; formal/ has the proofs.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity index_component is
  generic (
    index_g     : natural range 4 to 31  := 4;   -- blocks of 2**index_g bytes
    heap_log2_g : natural range 5 to 32  := 25;  -- addresses have so many bits
    depth_g     : positive range 2 to 64 := 8;
    recombine_g : boolean                := false;
    free_bit_g  : std_ulogic             := '0'
  );
  port (
    clk_i       : in    std_ulogic;
    rst_i       : in    std_ulogic;
    whole_i     : in    std_ulogic;
    flush_i     : in    std_ulogic;
    low_i       : in    natural range 0 to 63;
    high_i      : in    natural range 0 to 63;
    enable_i    : in    std_ulogic;
    op_i        : in    index_op_t;
    addr_i      : in    word_t;
    done_o      : out   std_ulogic;
    refused_o   : out   std_ulogic;
    addr_o      : out   word_t;
    available_o : out   std_ulogic;  -- an allocation will find a block
    paired_o    : out   std_ulogic;
    rest_o      : out   std_ulogic;  -- the controller is idle, the buffer empty
    rise_i      : in    std_ulogic;
    rise_addr_i : in    word_t;
    rise_done_o : out   std_ulogic;
    up_o        : out   std_ulogic;
    up_addr_o   : out   word_t;
    up_done_i   : in    std_ulogic;
    req_o       : out   std_ulogic;
    we_o        : out   std_ulogic;
    mem_addr_o  : out   word_t;
    wdata_o     : out   word_t;
    ack_i       : in    std_ulogic;
    rdata_i     : in    word_t
  );
end entity index_component;

architecture rtl of index_component is

  -- The buffer holds no bits that are always zero.
  subtype short_t is std_ulogic_vector(heap_log2_g - 1 downto index_g);

  function long (short : short_t) return word_t is
    variable result : word_t := (others => '0');
  begin
    result(short_t'range) := short;
    return result;
  end function long;

  signal push, pop, holds, has, room : std_ulogic;
  signal value, top_long             : word_t;
  signal top, bottom                 : short_t;
  signal drain, drainable, fill      : std_ulogic;
  signal fill_value                  : word_t;
  signal reserve, reservable         : std_ulogic_vector(1 downto 0);
  signal count                       : natural range 0 to depth_g;
  signal reserved                    : natural range 0 to 2;
  signal wants, stuck                : std_ulogic;
  signal pair, pair_done, pair_none  : std_ulogic;
  signal pair_addr, moved            : word_t;
  signal listed, moving, idle        : std_ulogic;
  signal coming                      : std_ulogic;
  signal bottom_long                 : word_t;

begin

  buffer_of_blocks : entity work.free_buffer
    generic map (
      depth_g => depth_g,
      width_g => heap_log2_g - index_g
    )
    port map (
      clk_i        => clk_i,
      rst_i        => rst_i,
      push_i       => push,
      pop_i        => pop,
      value_i      => value(short_t'range),
      top_o        => top,
      holds_o      => holds,
      has_o        => has,
      room_o       => room,
      drain_i      => drain,
      drainable_o  => drainable,
      bottom_o     => bottom,
      reserve_i    => reserve,
      reservable_o => reservable,
      fill_i       => fill,
      fill_value_i => fill_value(short_t'range),
      count_o      => count,
      reserved_o   => reserved
    );

  top_long    <= long(top);
  bottom_long <= long(bottom);

  -- An operation waits for what is on its way. A find counts on a block that goes to the lists, unless it may go up.
  coming      <= '1' when reserved /= 0 or listed = '1' or moving = '1' else '0';
  available_o <= '1' when has = '1' or reserved /= 0 or listed = '1' or (moving = '1' and not recombine_g) else '0';
  rest_o      <= idle and not has;

  processor_side : entity work.cpu_index_controller
    generic map (
      index_g => index_g
    )
    port map (
      enable_i    => enable_i,
      op_i        => op_i,
      addr_i      => addr_i,
      done_o      => done_o,
      refused_o   => refused_o,
      addr_o      => addr_o,
      rise_i      => rise_i,
      rise_addr_i => rise_addr_i,
      rise_done_o => rise_done_o,
      has_i       => has,
      room_i      => room,
      holds_i     => holds,
      top_i       => top_long,
      push_o      => push,
      pop_o       => pop,
      value_o     => value,
      coming_i    => coming,
      moving_i    => moving,
      moved_i     => moved,
      wants_o     => wants,
      stuck_o     => stuck,
      pair_o      => pair,
      pair_done_i => pair_done,
      pair_none_i => pair_none,
      pair_addr_i => pair_addr
    );

  memory_side : entity work.ram_index_controller
    generic map (
      index_g     => index_g,
      depth_g     => depth_g,
      recombine_g => recombine_g,
      free_bit_g  => free_bit_g
    )
    port map (
      clk_i        => clk_i,
      rst_i        => rst_i,
      whole_i      => whole_i,
      flush_i      => flush_i,
      low_i        => low_i,
      high_i       => high_i,
      wants_i      => wants,
      stuck_i      => stuck,
      pair_i       => pair,
      pair_done_o  => pair_done,
      pair_none_o  => pair_none,
      pair_addr_o  => pair_addr,
      count_i      => count,
      drainable_i  => drainable,
      bottom_i     => bottom_long,
      reservable_i => reservable,
      drain_o      => drain,
      reserve_o    => reserve,
      fill_o       => fill,
      fill_value_o => fill_value,
      listed_o     => listed,
      paired_o     => paired_o,
      moving_o     => moving,
      moved_o      => moved,
      idle_o       => idle,
      up_o         => up_o,
      up_addr_o    => up_addr_o,
      up_done_i    => up_done_i,
      req_o        => req_o,
      we_o         => we_o,
      addr_o       => mem_addr_o,
      wdata_o      => wdata_o,
      ack_i        => ack_i,
      rdata_i      => rdata_i
    );

end architecture rtl;
