-- SPDX-License-Identifier: MIT
-- The units that a trace can drive, by name, behind one face: of the bench in ghdl, and of fast/ by Verilator.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity unit_under_trace is
  generic (
    unit_g     : string     := "hbs";
    free_bit_g : std_ulogic := '0';
    heap_log2_g : natural   := 25; -- the largest heap
    -- OHEBS's buffers, where they are to be other than the unit's name says: places (0: as named), and of the indices
    -- up to small_to_g; low and high mark (negative: as named).
    depth_g       : natural := 0;
    small_depth_g : natural := 0;
    small_to_g    : natural := 7;
    low_g         : integer := -1;
    high_g        : integer := -1
  );
  port (
    clk_i       : in    std_ulogic;
    rst_i       : in    std_ulogic;
    op_i        : in    opcode_t;
    data_i      : in    word_t;
    wdata_i     : in    word_t;
    ready_o     : out   std_ulogic;
    done_o      : out   std_ulogic;
    status_o    : out   status_t;
    result_o    : out   word_t;
    phase_o     : out   phase_t;
    how_o       : out   how_t;  -- OHEBS only
    late_o      : out   status_t;
    mem_req_o   : out   std_ulogic;
    mem_we_o    : out   std_ulogic;
    mem_addr_o  : out   word_t;
    mem_wdata_o : out   word_t;
    mem_ack_i   : in    std_ulogic;
    mem_rdata_i : in    word_t
  );
end entity unit_under_trace;

architecture model of unit_under_trace is

  -- reference: neither Fast Find nor Fast Return. waiting: without Fast Return. posted: frees are answered at once.
  -- joining: with recombination on the way to the lists. tight: the smallest buffers, joining, marks that are equal.
  -- shared: one RAM index controller for all.
  constant hbs_c    : boolean := unit_g = "hbs" or unit_g = "hbs_reference";
  constant tight_c  : boolean := unit_g = "ohebs_tight" or unit_g = "ohebs_shared_tight";
  constant shared_c : boolean := unit_g = "ohebs_shared" or unit_g = "ohebs_shared_joining"
                                 or unit_g = "ohebs_shared_tight";

  function buffers (tight, other : natural; given : integer) return per_index_t is
  begin
    if given >= 0 then
      return (others => given);
    elsif tight_c then
      return (others => tight);
    end if;
    return (others => other);
  end function buffers;

  -- Marks that the thesis has, as a share of eight places, but for what has been given.
  function depths return per_index_t is
    variable result : per_index_t;
  begin
    result := buffers(2, 8, -1);
    for i in result'range loop
      if i <= small_to_g and small_depth_g /= 0 then
        result(i) := small_depth_g;
      elsif depth_g /= 0 then
        result(i) := depth_g;
      end if;
    end loop;
    return result;
  end function depths;

  constant depths_c : per_index_t := depths;

  function marks (values : per_index_t; numerator : natural; given : integer) return per_index_t is
    variable result : per_index_t;
  begin
    result := values;
    for i in result'range loop
      if given < 0 and depths_c(i) /= 8 and not tight_c then
        result(i) := maximum(depths_c(i) * numerator / 8, 1);
      end if;
    end loop;
    return result;
  end function marks;

  signal late : status_t := status_ok_c;

begin

  assert hbs_c or tight_c or shared_c or unit_g = "ohebs" or unit_g = "ohebs_waiting" or unit_g = "ohebs_posted"
         or unit_g = "ohebs_joining"
    report "no unit is called " & unit_g
    severity failure;

  unit : entity work.allocator
    generic map (
      hbs_g         => hbs_c,
      heap_log2_g   => heap_log2_g,
      depths_g      => depths_c,
      lows_g        => marks(buffers(1, 2, low_g), 2, low_g),
      highs_g       => marks(buffers(1, 6, high_g), 6, high_g),
      fast_return_g => unit_g /= "hbs_reference" and unit_g /= "ohebs_waiting",
      posted_g      => unit_g = "ohebs_posted",
      recombine_g   => unit_g = "ohebs_joining" or unit_g = "ohebs_shared_joining" or tight_c,
      shared_g      => shared_c,
      free_bit_g    => free_bit_g
    )
    port map (
      clk_i       => clk_i,
      rst_i       => rst_i,
      op_i        => op_i,
      data_i      => data_i,
      wdata_i     => wdata_i,
      ready_o     => ready_o,
      done_o      => done_o,
      status_o    => status_o,
      result_o    => result_o,
      late_o      => late,
      phase_o     => phase_o,
      how_o       => how_o,
      mem_req_o   => mem_req_o,
      mem_we_o    => mem_we_o,
      mem_addr_o  => mem_addr_o,
      mem_wdata_o => mem_wdata_o,
      mem_ack_i   => mem_ack_i,
      mem_rdata_i => mem_rdata_i
    );

  late_o <= late;

  assert late = status_ok_c or rst_i /= '0'
    report "a posted free has gone wrong: status " & to_string(late)
    severity failure;

end architecture model;
