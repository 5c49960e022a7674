-- SPDX-License-Identifier: MIT
-- The Free-Buffer of one index (thesis, section 5.4.1): the addresses of a few free blocks, for the processor at the
-- top end, for the RAM index controller at the bottom end. Both may add and take at the same time.
--
-- The processor's end is a stack, so the block freed last is given out first. The RAM controller drains the oldest
-- first: doc/ohebs.md shows that the headers' validity rests on this order. Instead of comparing indices there are
-- credits (doc/decisions.md, 6): the controller reserves places before it fetches, and
--   count + reserved <= depth_g
-- holds in every cycle, with the processor first where both want the last place or the last block.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;

entity free_buffer is
  generic (
    depth_g : positive range 2 to 64 := 8;
    width_g : positive               := 28
  );
  port (
    clk_i      : in    std_ulogic;
    rst_i      : in    std_ulogic;
    -- The processor's end. It pushes only if room_o, pops only if has_o.
    push_i     : in    std_ulogic;
    pop_i      : in    std_ulogic;
    value_i    : in    std_ulogic_vector(width_g - 1 downto 0);
    top_o      : out   std_ulogic_vector(width_g - 1 downto 0);
    holds_o    : out   std_ulogic;  -- value_i is in the buffer
    has_o      : out   std_ulogic;
    room_o     : out   std_ulogic;
    -- The controller's end. It drains only if drainable_o, reserves one or two places only if reservable_o says so,
    -- and fills a reserved place.
    drain_i      : in    std_ulogic;
    drainable_o  : out   std_ulogic;
    bottom_o     : out   std_ulogic_vector(width_g - 1 downto 0);
    reserve_i    : in    std_ulogic_vector(1 downto 0);  -- bit 0: one; bit 1: two
    reservable_o : out   std_ulogic_vector(1 downto 0);
    fill_i       : in    std_ulogic;
    fill_value_i : in    std_ulogic_vector(width_g - 1 downto 0);
    count_o      : out   natural range 0 to depth_g;
    reserved_o   : out   natural range 0 to 2
  );
end entity free_buffer;

architecture rtl of free_buffer is

  type places_t is array (0 to depth_g - 1) of std_ulogic_vector(width_g - 1 downto 0);

  signal places   : places_t;
  -- `top` is where the processor's last block is, `bottom` the empty place behind the oldest.
  signal top      : natural range 0 to depth_g - 1;
  signal bottom   : natural range 0 to depth_g - 1;
  signal count    : natural range 0 to depth_g;
  signal reserved : natural range 0 to 2;
  signal pushes   : natural range 0 to 1;
  signal pops     : natural range 0 to 1;

  function up (index : natural) return natural is
  begin
    if index = depth_g - 1 then
      return 0;
    end if;
    return index + 1;
  end function up;

  function down (index : natural) return natural is
  begin
    if index = 0 then
      return depth_g - 1;
    end if;
    return index - 1;
  end function down;

begin

  pushes <= 1 when push_i = '1' else 0;
  pops   <= 1 when pop_i = '1' else 0;

  count_o     <= count;
  reserved_o  <= reserved;
  top_o       <= places(top);
  bottom_o    <= places(up(bottom));
  has_o       <= '1' when count /= 0 else '0';
  room_o      <= '1' when count + reserved < depth_g else '0';
  drainable_o <= '1' when count > pops else '0';

  reservable_o(0) <= '1' when count + reserved + pushes + 1 <= depth_g else '0';
  reservable_o(1) <= '1' when count + reserved + pushes + 2 <= depth_g else '0';

  -- A block that is freed twice while it is here.
  look_up : process (all) is

    variable index : natural range 0 to depth_g - 1;

  begin
    holds_o <= '0';
    for i in 0 to depth_g - 1 loop
      index := (bottom + 1 + i) mod depth_g;
      if i < count and places(index) = value_i then
        holds_o <= '1';
      end if;
    end loop;
  end process look_up;

  change : process (clk_i) is

    variable amount : natural range 0 to depth_g + 2;
    variable kept   : natural range 0 to 4;

  begin
    if rising_edge(clk_i) then
      amount := count;
      kept := reserved;
      if push_i = '1' then
        places(up(top)) <= value_i;
        top <= up(top);
        amount := amount + 1;
      elsif pop_i = '1' then
        top <= down(top);
        amount := amount - 1;
      end if;
      if fill_i = '1' then
        places(bottom) <= fill_value_i;
        bottom <= down(bottom);
        amount := amount + 1;
        kept := kept - 1;
      elsif drain_i = '1' then
        bottom <= up(bottom);
        amount := amount - 1;
      end if;
      if reserve_i(0) = '1' then
        kept := kept + 1;
      elsif reserve_i(1) = '1' then
        kept := kept + 2;
      end if;
      count    <= amount;
      reserved <= kept;
      if rst_i = '1' then
        top      <= 0;
        bottom   <= 0;
        count    <= 0;
        reserved <= 0;
      end if;
    end if;
  end process change;

  -- Checked in every simulation, and proved (formal/free_buffer_formal.vhd).
  default clock is rising_edge(clk_i);

  credits : assert always rst_i = '0' -> count + reserved <= depth_g;
  ranges  : assert always rst_i = '0' -> top <= depth_g - 1 and bottom <= depth_g - 1;
  indices : assert always rst_i = '0' -> (bottom + count) mod depth_g = top;

end architecture rtl;
