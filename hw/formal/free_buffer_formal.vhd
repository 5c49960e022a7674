-- SPDX-License-Identifier: MIT
-- free_buffer, used in every way that it allows: blocks and reservations never exceed its places, and its two indices
-- agree with its count, so no place is ever given to two blocks. The properties credits and indices are in the entity
-- itself. Proved by induction.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;

entity free_buffer_formal is
  generic (
    depth_g : positive := 8
  );
  port (
    clk_i     : in    std_ulogic;
    push_i    : in    std_ulogic;
    pop_i     : in    std_ulogic;
    drain_i   : in    std_ulogic;
    fill_i    : in    std_ulogic;
    reserve_i : in    std_ulogic_vector(1 downto 0);
    value_i   : in    std_ulogic_vector(1 downto 0);
    other_i   : in    std_ulogic_vector(1 downto 0)
  );
end entity free_buffer_formal;

architecture formal of free_buffer_formal is

  signal rst        : std_ulogic := '1';
  signal push       : std_ulogic;
  signal pop        : std_ulogic;
  signal drain      : std_ulogic;
  signal fill       : std_ulogic;
  signal reserve    : std_ulogic_vector(1 downto 0);
  signal reservable : std_ulogic_vector(1 downto 0);
  signal has        : std_ulogic;
  signal room       : std_ulogic;
  signal drainable  : std_ulogic;
  signal count      : natural range 0 to depth_g;
  signal reserved   : natural range 0 to 2;
  signal top_value  : std_ulogic_vector(1 downto 0);
  signal bottom_value : std_ulogic_vector(1 downto 0);

begin

  -- Whatever the flags allow.
  push  <= push_i and room and not rst;
  pop   <= pop_i and has and not push and not rst;
  fill  <= fill_i and not rst when reserved /= 0 else '0';
  drain <= drain_i and drainable and not fill and not rst;
  reserve(0) <= reserve_i(0) and reservable(0) and not rst when reserved = 0 else '0';
  reserve(1) <= reserve_i(1) and reservable(1) and not reserve(0) and not rst when reserved = 0 else '0';

  unit : entity work.free_buffer
    generic map (
      depth_g => depth_g,
      width_g => 2
    )
    port map (
      clk_i        => clk_i,
      rst_i        => rst,
      push_i       => push,
      pop_i        => pop,
      value_i      => value_i,
      top_o        => top_value,
      holds_o      => open,
      has_o        => has,
      room_o       => room,
      drain_i      => drain,
      drainable_o  => drainable,
      bottom_o     => bottom_value,
      reserve_i    => reserve,
      reservable_o => reservable,
      fill_i       => fill,
      fill_value_i => other_i,
      count_o      => count,
      reserved_o   => reserved
    );

  follow : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      rst <= '0';
    end if;
  end process follow;

  default clock is rising_edge(clk_i);

  reserves : assert always rst = '0' -> reserved <= 2;
  -- One block: both ends see the same.
  one_block : assert always (rst = '0' and count = 1 and depth_g > 1) -> top_value = bottom_value;

end architecture formal;
