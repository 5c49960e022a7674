-- SPDX-License-Identifier: MIT
-- The whole of shared_indices, front, back and buffers, with two indices and two places each: how long the back is busy
-- and how long an operation waits for it. Memory answers at once and holds anything, marks and flushes come and go, and
-- operations come in any order.
--
-- Nothing is reset here. A run begins in any state in which the back is idle and `at_rest` is so, of which
-- shared_times_insides.v has the text: lists and buffers hold anything, the front is anywhere in an operation. Whenever
-- the back is idle again, `at_rest` is proved to be so again, and it is idle again within the run: so a run of that
-- length stands for one without an end.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity shared_times_formal is
  generic (
    recombine_g : boolean := false
  );
  port (
    clk_i     : in    std_ulogic;
    begin_i   : in    std_ulogic;
    op_i      : in    index_op_t;
    larger_i  : in    std_ulogic;
    block_i   : in    word_t;
    flush_i   : in    std_ulogic;
    low_i     : in    std_ulogic_vector(5 downto 4);
    high_i    : in    std_ulogic_vector(5 downto 4);
    rdata_i   : in    word_t
  );
end entity shared_times_formal;

architecture formal of shared_times_formal is

  signal asking : std_ulogic;  -- an operation is under way, perhaps since before the run
  signal op     : index_op_t;
  signal larger : std_ulogic;
  signal enable : word_t;
  signal addr   : word_t;

  signal lows, highs   : per_index_t;
  signal done, refused : std_ulogic;
  signal req           : std_ulogic;

begin

  set_marks : process (all) is
  begin
    lows  <= (others => 0);
    highs <= (others => 2);
    for k in 4 to 5 loop
      if low_i(k) = '1' then
        lows(k) <= 1;
      end if;
      if high_i(k) = '1' then
        highs(k) <= 1;
      end if;
    end loop;
  end process set_marks;

  -- One index; a cut of the larger block has one part, of the smaller.
  choose : process (all) is
  begin
    enable <= (others => '0');
    if asking = '1' then
      enable(5) <= larger;
      enable(4) <= not larger;
    end if;
  end process choose;

  unit : entity work.shared_indices
    generic map (
      heap_log2_g => 5,
      depths_g    => (others => 2),
      recombine_g => recombine_g
    )
    port map (
      clk_i       => clk_i,
      rst_i       => '0',
      heap_i      => x"00000020",
      flush_i     => flush_i,
      lows_i      => lows,
      highs_i     => highs,
      enable_i    => enable,
      op_i        => op,
      addr_i      => addr,
      done_o      => done,
      refused_o   => refused,
      answer_o    => open,
      available_o => open,
      paired_o    => open,
      rest_o      => open,
      req_o       => req,
      we_o        => open,
      addr_o      => open,
      wdata_o     => open,
      ack_i       => req,
      rdata_i     => rdata_i
    );

  ask : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      if asking = '0' then
        asking <= begin_i;
        op     <= op_i;
        larger  <= larger_i;
        addr   <= block_i;
      elsif done = '1' or refused = '1' then
        asking <= '0';
      end if;
    end if;
  end process ask;

end architecture formal;
