-- SPDX-License-Identifier: MIT
-- cpu_interface from any idle state whatever, with a processor that asks anything, and indices and memory that answer
-- anything within a bounded time: each call is answered once, and is over after limit_g cycles at most. The header of
-- what is given out is written before a part of it goes anywhere. Nothing is reset here and every value is a possible
-- beginning, so a proof over the length of one call holds for ever.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity cpu_interface_formal is
  generic (
    limit_g       : positive := 40;
    fast_return_g : boolean  := true;
    posted_g      : boolean  := false;
    refusals_g    : natural  := 2       -- so often an index finds that what it seemed to have is gone
  );
  port (
    clk_i       : in    std_ulogic;
    op_i        : in    opcode_t;
    data_i      : in    word_t;
    -- What indices and memory choose freely; each makes one wait for three cycles at most.
    serve_i     : in    std_ulogic;
    refuse_i    : in    std_ulogic;
    dones_i     : in    word_t;
    answer_i    : in    word_t;
    available_i : in    word_t;
    paired_i    : in    word_t;
    rest_i      : in    std_ulogic;
    still_i     : in    std_ulogic;
    ack_i       : in    std_ulogic;
    rdata_i     : in    word_t
  );
end entity cpu_interface_formal;

architecture formal of cpu_interface_formal is

  constant wait_c : natural := 2;

  signal ready, answered : std_ulogic;
  signal status, late    : status_t;
  signal enable, dones   : word_t;
  signal op              : index_op_t;
  signal done, refused   : std_ulogic;
  signal flush, hold     : std_ulogic;
  signal rest            : word_t;
  signal still           : std_ulogic;
  signal req, we, ack    : std_ulogic;

  signal begun           : std_ulogic := '0';             -- it has been idle, as it is then
  signal cycles          : natural range 0 to 127 := 0;   -- since the call
  signal calls           : natural range 0 to 3 := 0;     -- that have no answer yet
  signal answers         : natural range 0 to 3 := 0;     -- to the last call
  signal waits           : natural range 0 to 3 := 0;     -- cycles that the present wait has taken
  signal served          : word_t := (others => '0');
  signal refusals        : natural range 0 to 7 := 0;
  signal written         : std_ulogic := '0';             -- the header, in this call
  signal given           : std_ulogic := '0';             -- an allocation was answered with a block, in this call
  signal in_time         : std_ulogic;

begin

  unit : entity work.cpu_interface
    generic map (
      heap_log2_g   => 7,
      fast_return_g => fast_return_g,
      posted_g      => posted_g
    )
    port map (
      clk_i       => clk_i,
      rst_i       => '0',
      op_i        => op_i,
      data_i      => data_i,
      wdata_i     => (others => '0'),
      ready_o     => ready,
      done_o      => answered,
      status_o    => status,
      result_o    => open,
      late_o      => late,
      phase_o     => open,
      how_o       => open,
      heap_o      => open,
      clear_o     => open,
      flush_o     => flush,
      enable_o    => enable,
      op_o        => op,
      addr_o      => open,
      done_i      => done,
      dones_i     => dones,
      refused_i   => refused,
      answer_i    => answer_i,
      available_i => available_i,
      paired_i    => paired_i,
      rest_i      => rest,
      marks_o     => open,
      index_o     => open,
      low_o       => open,
      high_o      => open,
      hold_o      => hold,
      still_i     => still,
      req_o       => req,
      we_o        => we,
      mem_addr_o  => open,
      mem_wdata_o => open,
      ack_i       => ack,
      rdata_i     => rdata_i
    );

  in_time <= '1' when waits = wait_c else '0';

  -- Parts go where there is room, in any order; all else is done or refused.
  refused <= '1' when or_all(enable) = '1' and refuse_i = '1' and op /= index_part_c and refusals < refusals_g else '0';
  dones   <= (others => '1') when in_time = '1' else
             dones_i when op = index_part_c else
             (others => serve_i);
  done    <= '1' when or_all(enable) = '1' and refused = '0' and (enable and not dones) = x"00000000" else '0';
  rest    <= (others => rest_i or in_time);
  still   <= still_i or in_time;
  ack     <= req and (ack_i or in_time);

  follow : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      waits <= 0;
      if waits /= wait_c and ((or_all(enable) = '1' and done = '0' and refused = '0') or (req = '1' and ack = '0')
                              or (flush = '1' and rest_i = '0') or (hold = '1' and still = '0')) then
        waits <= waits + 1;
      end if;
      if refused = '1' then
        refusals <= refusals + 1;
      end if;
      if answered = '1' and answers /= 3 then
        answers <= answers + 1;
      end if;
      if req = '1' and we = '1' and ack = '1' then
        written <= '1';
      end if;
      if ready = '1' then
        begun    <= begun or not (req or or_all(enable) or answered);
        cycles   <= 0;
        refusals <= 0;
        if op_i /= op_none_c and begun = '1' then
          answers <= 0;
          written <= '0';
          calls   <= 1;
        end if;
      elsif cycles /= 127 then
        cycles <= cycles + 1;
      end if;
    end if;
  end process follow;

  default clock is rising_edge(clk_i);

  ends : assert always begun = '1' -> cycles < limit_g;
  -- When the unit listens again its call has one answer, counting that which is given in this very cycle.
  once : assert always (begun = '1' and calls = 1 and ready = '1') -> (answers = 1) /= (answered = '1');
  never_twice : assert always (begun = '1' and calls = 1) -> (answers = 0 or (answers = 1 and answered = '0'));
  header_first : assert always (begun = '1' and or_all(enable) = '1' and op = index_part_c) -> written = '1';

end architecture formal;
