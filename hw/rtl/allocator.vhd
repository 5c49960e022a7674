-- SPDX-License-Identifier: MIT
-- One of the units, chosen by a generic, behind the face that all of them have: what the bus faces and the benches of
-- traces are built around. HBS has no use for wdata_i, and is never late.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity allocator is
  generic (
    hbs_g         : boolean               := false;  -- HBS; else OHEBS
    min_log2_g    : natural range 4 to 30 := 4;
    heap_log2_g   : natural range 5 to 31 := 25;
    depths_g      : per_index_t           := (others => 8);
    lows_g        : per_index_t           := (others => 2);
    highs_g       : per_index_t           := (others => 6);
    fast_return_g : boolean               := true;   -- for HBS: Fast Find and Fast Return
    posted_g      : boolean               := false;
    recombine_g   : boolean               := false;
    shared_g      : boolean               := false;
    free_bit_g    : std_ulogic            := '0'
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
    late_o      : out   status_t;
    phase_o     : out   phase_t;
    how_o       : out   how_t;  -- OHEBS only
    mem_req_o   : out   std_ulogic;
    mem_we_o    : out   std_ulogic;
    mem_addr_o  : out   word_t;
    mem_wdata_o : out   word_t;
    mem_ack_i   : in    std_ulogic;
    mem_rdata_i : in    word_t
  );
end entity allocator;

architecture rtl of allocator is

begin

  make_unit : if hbs_g generate

    unit : entity work.hbs
      generic map (
        heap_log2_g => heap_log2_g,
        min_log2_g  => min_log2_g,
        optimised_g => fast_return_g,
        free_bit_g  => free_bit_g
      )
      port map (
        clk_i       => clk_i,
        rst_i       => rst_i,
        op_i        => op_i,
        data_i      => data_i,
        ready_o     => ready_o,
        done_o      => done_o,
        status_o    => status_o,
        result_o    => result_o,
        phase_o     => phase_o,
        mem_req_o   => mem_req_o,
        mem_we_o    => mem_we_o,
        mem_addr_o  => mem_addr_o,
        mem_wdata_o => mem_wdata_o,
        mem_ack_i   => mem_ack_i,
        mem_rdata_i => mem_rdata_i
      );

    late_o <= status_ok_c;
    how_o  <= how_none_c;

  else generate

    unit : entity work.ohebs
      generic map (
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
        rst_i       => rst_i,
        op_i        => op_i,
        data_i      => data_i,
        wdata_i     => wdata_i,
        ready_o     => ready_o,
        done_o      => done_o,
        status_o    => status_o,
        result_o    => result_o,
        late_o      => late_o,
        phase_o     => phase_o,
        how_o       => how_o,
        mem_req_o   => mem_req_o,
        mem_we_o    => mem_we_o,
        mem_addr_o  => mem_addr_o,
        mem_wdata_o => mem_wdata_o,
        mem_ack_i   => mem_ack_i,
        mem_rdata_i => mem_rdata_i
      );

  end generate make_unit;

end architecture rtl;
