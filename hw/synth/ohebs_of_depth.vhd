-- SPDX-License-Identifier: MIT
-- OHEBS with the same depth for all buffers, as a number: what synth.py can choose.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity ohebs_of_depth is
  generic (
    heap_log2_g : natural  := 25;
    depth_g     : positive := 8;
    recombine_g : boolean  := false;
    shared_g    : boolean  := false
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
    mem_req_o   : out   std_ulogic;
    mem_we_o    : out   std_ulogic;
    mem_addr_o  : out   word_t;
    mem_wdata_o : out   word_t;
    mem_ack_i   : in    std_ulogic;
    mem_rdata_i : in    word_t
  );
end entity ohebs_of_depth;

architecture rtl of ohebs_of_depth is

begin

  unit : entity work.ohebs
    generic map (
      heap_log2_g => heap_log2_g,
      depths_g    => (others => depth_g),
      lows_g      => (others => depth_g / 4),
      highs_g     => (others => depth_g - depth_g / 4),
      recombine_g => recombine_g,
      shared_g    => shared_g
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
      mem_req_o   => mem_req_o,
      mem_we_o    => mem_we_o,
      mem_addr_o  => mem_addr_o,
      mem_wdata_o => mem_wdata_o,
      mem_ack_i   => mem_ack_i,
      mem_rdata_i => mem_rdata_i
    );

end architecture rtl;
