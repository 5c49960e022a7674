-- SPDX-License-Identifier: MIT
-- An allocator behind its registers (doc/registers.md): what the bus faces have in common. A layer for a bus brings the
-- registers' accesses, and takes the transfers of memory, which begin at base_o and stop while hold_o is set.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity served_allocator is
  generic (
    hbs_g         : boolean               := false;  -- as allocator's
    min_log2_g    : natural range 4 to 30 := 4;
    heap_log2_g   : natural range 5 to 31 := 25;
    depths_g      : per_index_t           := (others => 8);
    lows_g        : per_index_t           := (others => 2);
    highs_g       : per_index_t           := (others => 6);
    fast_return_g : boolean               := true;
    posted_g      : boolean               := false;
    recombine_g   : boolean               := true;
    shared_g      : boolean               := false;
    free_bit_g    : std_ulogic            := '0'
  );
  port (
    clk_i       : in    std_ulogic;
    rst_i       : in    std_ulogic;
    -- The registers.
    sel_i       : in    std_ulogic;
    we_i        : in    std_ulogic;
    addr_i      : in    std_ulogic_vector(7 downto 0);
    strobes_i   : in    std_ulogic_vector(3 downto 0);
    wdata_i     : in    word_t;
    ack_o       : out   std_ulogic;
    err_o       : out   std_ulogic;
    rdata_o     : out   word_t;
    -- The memory.
    base_o      : out   word_t;
    hold_o      : out   std_ulogic;  -- begin no transfer
    still_i     : in    std_ulogic;  -- none is under way
    fault_i     : in    std_ulogic;  -- one has been refused
    mem_req_o   : out   std_ulogic;
    mem_we_o    : out   std_ulogic;
    mem_addr_o  : out   word_t;
    mem_wdata_o : out   word_t;
    mem_ack_i   : in    std_ulogic;
    mem_rdata_i : in    word_t
  );
end entity served_allocator;

architecture rtl of served_allocator is

  signal unit_rst     : std_ulogic;
  signal op           : opcode_t;
  signal data, result : word_t;
  signal ready, done  : std_ulogic;
  signal status, late : status_t;

begin

  face : entity work.register_face
    generic map (
      hbs_g         => hbs_g,
      min_log2_g    => min_log2_g,
      heap_log2_g   => heap_log2_g,
      fast_return_g => fast_return_g,
      posted_g      => posted_g,
      recombine_g   => recombine_g
    )
    port map (
      clk_i      => clk_i,
      rst_i      => rst_i,
      sel_i      => sel_i,
      we_i       => we_i,
      addr_i     => addr_i,
      strobes_i  => strobes_i,
      wdata_i    => wdata_i,
      ack_o      => ack_o,
      err_o      => err_o,
      rdata_o    => rdata_o,
      unit_rst_o => unit_rst,
      op_o       => op,
      data_o     => data,
      ready_i    => ready,
      done_i     => done,
      status_i   => status,
      result_i   => result,
      late_i     => late,
      base_o     => base_o,
      hold_o     => hold_o,
      still_i    => still_i,
      fault_i    => fault_i
    );

  unit : entity work.allocator
    generic map (
      hbs_g         => hbs_g,
      min_log2_g    => min_log2_g,
      heap_log2_g   => heap_log2_g,
      depths_g      => depths_g,
      lows_g        => lows_g,
      highs_g       => highs_g,
      fast_return_g => fast_return_g,
      posted_g      => posted_g,
      recombine_g   => recombine_g,
      shared_g      => shared_g,
      free_bit_g    => free_bit_g
    )
    port map (
      clk_i       => clk_i,
      rst_i       => unit_rst,
      op_i        => op,
      data_i      => data,
      wdata_i     => data,  -- stores do not come this way
      ready_o     => ready,
      done_o      => done,
      status_o    => status,
      result_o    => result,
      late_o      => late,
      phase_o     => open,
      mem_req_o   => mem_req_o,
      mem_we_o    => mem_we_o,
      mem_addr_o  => mem_addr_o,
      mem_wdata_o => mem_wdata_o,
      mem_ack_i   => mem_ack_i,
      mem_rdata_i => mem_rdata_i
    );

end architecture rtl;
