-- SPDX-License-Identifier: MIT
-- ram_index_controller from any idle state whatever, its lists and all else it keeps being anything, with memory that
-- answers at once: after limit_g cycles at most it is idle again. So each of its sequences is bounded, and an operation
-- that waits for it waits for one that has begun and for its own. Nothing is reset here and every value is a possible
-- beginning, so a proof over the length of one sequence holds for ever.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity controller_formal is
  generic (
    limit_g     : positive := 18;
    recombine_g : boolean  := false
  );
  port (
    clk_i        : in    std_ulogic;
    whole_i      : in    std_ulogic;
    flush_i      : in    std_ulogic;
    wants_i      : in    std_ulogic;
    stuck_i      : in    std_ulogic;
    pair_i       : in    std_ulogic;
    count_i      : in    natural range 0 to 7;
    drainable_i  : in    std_ulogic;
    bottom_i     : in    word_t;
    reservable_i : in    std_ulogic_vector(1 downto 0);
    rdata_i      : in    word_t
  );
end entity controller_formal;

architecture formal of controller_formal is

  signal req   : std_ulogic;
  signal up    : std_ulogic;
  signal idle  : std_ulogic;

begin

  unit : entity work.ram_index_controller
    generic map (
      index_g     => 4,
      depth_g     => 7,
      recombine_g => recombine_g
    )
    port map (
      clk_i        => clk_i,
      rst_i        => '0',
      whole_i      => whole_i,
      flush_i      => flush_i,
      low_i        => 2,
      high_i       => 5,
      wants_i      => wants_i,
      stuck_i      => stuck_i,
      pair_i       => pair_i,
      pair_done_o  => open,
      pair_none_o  => open,
      pair_addr_o  => open,
      count_i      => count_i,
      drainable_i  => drainable_i,
      bottom_i     => bottom_i,
      reservable_i => reservable_i,
      drain_o      => open,
      reserve_o    => open,
      fill_o       => open,
      fill_value_o => open,
      listed_o     => open,
      paired_o     => open,
      moving_o     => open,
      moved_o      => open,
      idle_o       => idle,
      up_o         => up,
      up_addr_o    => open,
      up_done_i    => up,
      req_o        => req,
      we_o         => open,
      addr_o       => open,
      wdata_o      => open,
      ack_i        => req,
      rdata_i      => rdata_i
    );

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
