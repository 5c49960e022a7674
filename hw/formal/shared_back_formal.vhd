-- SPDX-License-Identifier: MIT
-- shared_back from any idle state whatever, its lists and all else it keeps being anything, with memory that answers at
-- once and buffers that give it its turn when it asks: after limit_g cycles at most it is idle again, and has made no
-- more than seven transfers. So an operation that waits for it waits for one sequence that has begun and for its own.
-- Nothing is reset here and every value is a possible beginning, so a proof over the length of one sequence holds for
-- ever. A cycle that the front keeps it from its turn is one more each time.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity shared_back_formal is
  generic (
    limit_g     : positive := 24;
    recombine_g : boolean  := false
  );
  port (
    clk_i     : in    std_ulogic;
    flush_i   : in    std_ulogic;
    low_i     : in    std_ulogic_vector(6 downto 4);
    high_i    : in    std_ulogic_vector(6 downto 4);
    pick_i    : in    std_ulogic_vector(1 downto 0);
    needs_i   : in    std_ulogic_vector(2 downto 0);
    looks_i   : in    std_ulogic;
    has_i     : in    std_ulogic_vector(6 downto 4);
    at_has_i  : in    std_ulogic;
    at_room_i : in    std_ulogic;
    at_two_i  : in    std_ulogic;
    place_i   : in    std_ulogic_vector(1 downto 0);
    rdata_i   : in    word_t
  );
end entity shared_back_formal;

architecture formal of shared_back_formal is

  signal pick  : std_ulogic_vector(6 downto 4);
  signal idle  : std_ulogic;
  signal asks  : std_ulogic;
  signal turn  : std_ulogic := '0';
  signal req   : std_ulogic;

begin

  -- One index, always.
  pick <= "100" when pick_i = "10" else "010" when pick_i = "01" else "001";

  unit : entity work.shared_back
    generic map (
      heap_log2_g => 6,
      recombine_g => recombine_g
    )
    port map (
      clk_i         => clk_i,
      rst_i         => '0',
      heap_i        => "100",
      flush_i       => flush_i,
      low_i         => low_i,
      high_i        => high_i,
      pick_i        => pick,
      needs_block_i => needs_i(0),
      needs_pair_i  => needs_i(1),
      needs_room_i  => needs_i(2),
      looks_i       => looks_i,
      pair_o        => open,
      pair_addr_o   => open,
      idle_o        => idle,
      at_o          => open,
      listed_o      => open,
      paired_o      => open,
      fetching_o    => open,
      draining_o    => open,
      kept_o        => open,
      kept_above_o  => open,
      moving_o      => open,
      moved_o       => open,
      asks_o        => asks,
      turn_i        => turn,
      has_i         => has_i,
      room_i        => "111",
      index_o       => open,
      at_has_i      => at_has_i,
      at_room_i     => at_room_i,
      at_two_i      => at_two_i,
      drain_o       => open,
      fill_o        => open,
      rise_o        => open,
      value_o       => open,
      place_i       => place_i,
      req_o         => req,
      we_o          => open,
      addr_o        => open,
      wdata_o       => open,
      ack_i         => req,
      rdata_i       => rdata_i
    );

  give : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      turn <= asks;
    end if;
  end process give;

  bounds : entity work.sequence_bounds
    generic map (
      limit_g => limit_g
    )
    port map (
      clk_i  => clk_i,
      idle_i => idle,
      req_i  => req
    );

end architecture formal;
