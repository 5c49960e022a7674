-- SPDX-License-Identifier: MIT
-- An allocator on Wishbone B4: its registers (doc/registers.md) as a slave, its own transfers of memory as a master.
-- doc/wishbone.md says how to connect it.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity coffer_wishbone is
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
    free_bit_g    : std_ulogic            := '0';
    pipelined_g   : boolean               := false   -- the memory's slave is a pipelined one
  );
  port (
    clk_i        : in    std_ulogic;
    rst_i        : in    std_ulogic;
    -- Registers: what a processor connects to.
    s_wb_cyc_i   : in    std_ulogic;
    s_wb_stb_i   : in    std_ulogic;
    s_wb_we_i    : in    std_ulogic;
    s_wb_adr_i   : in    std_ulogic_vector(7 downto 0);
    s_wb_sel_i   : in    std_ulogic_vector(3 downto 0);
    s_wb_dat_i   : in    word_t;
    s_wb_ack_o   : out   std_ulogic;
    s_wb_err_o   : out   std_ulogic;
    s_wb_stall_o : out   std_ulogic;
    s_wb_dat_o   : out   word_t;
    -- Memory: where the heap is.
    m_wb_cyc_o   : out   std_ulogic;
    m_wb_stb_o   : out   std_ulogic;
    m_wb_we_o    : out   std_ulogic;
    m_wb_adr_o   : out   word_t;
    m_wb_sel_o   : out   std_ulogic_vector(3 downto 0);
    m_wb_dat_o   : out   word_t;
    m_wb_ack_i   : in    std_ulogic;
    m_wb_err_i   : in    std_ulogic;
    m_wb_stall_i : in    std_ulogic;
    m_wb_dat_i   : in    word_t
  );
end entity coffer_wishbone;

architecture rtl of coffer_wishbone is

  signal sel, face_we             : std_ulogic;
  signal face_addr                : std_ulogic_vector(7 downto 0);
  signal strobes                  : std_ulogic_vector(3 downto 0);
  signal face_wdata, face_rdata   : word_t;
  signal face_ack, face_err       : std_ulogic;
  signal base                     : word_t;
  signal hold, still, fault       : std_ulogic;
  signal req, we, ack             : std_ulogic;
  signal addr, wdata, rdata       : word_t;

begin

  registers : entity work.wishbone_slave
    port map (
      clk_i      => clk_i,
      rst_i      => rst_i,
      wb_cyc_i   => s_wb_cyc_i,
      wb_stb_i   => s_wb_stb_i,
      wb_we_i    => s_wb_we_i,
      wb_adr_i   => s_wb_adr_i,
      wb_sel_i   => s_wb_sel_i,
      wb_dat_i   => s_wb_dat_i,
      wb_ack_o   => s_wb_ack_o,
      wb_err_o   => s_wb_err_o,
      wb_stall_o => s_wb_stall_o,
      wb_dat_o   => s_wb_dat_o,
      sel_o      => sel,
      we_o       => face_we,
      addr_o     => face_addr,
      strobes_o  => strobes,
      wdata_o    => face_wdata,
      ack_i      => face_ack,
      err_i      => face_err,
      rdata_i    => face_rdata
    );

  served : entity work.served_allocator
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
      rst_i       => rst_i,
      sel_i       => sel,
      we_i        => face_we,
      addr_i      => face_addr,
      strobes_i   => strobes,
      wdata_i     => face_wdata,
      ack_o       => face_ack,
      err_o       => face_err,
      rdata_o     => face_rdata,
      base_o      => base,
      hold_o      => hold,
      still_i     => still,
      fault_i     => fault,
      mem_req_o   => req,
      mem_we_o    => we,
      mem_addr_o  => addr,
      mem_wdata_o => wdata,
      mem_ack_i   => ack,
      mem_rdata_i => rdata
    );

  memory : entity work.wishbone_master
    generic map (
      pipelined_g => pipelined_g
    )
    port map (
      clk_i      => clk_i,
      rst_i      => rst_i,
      base_i     => base,
      hold_i     => hold,
      still_o    => still,
      fault_o    => fault,
      req_i      => req,
      we_i       => we,
      addr_i     => addr,
      wdata_i    => wdata,
      ack_o      => ack,
      rdata_o    => rdata,
      wb_cyc_o   => m_wb_cyc_o,
      wb_stb_o   => m_wb_stb_o,
      wb_we_o    => m_wb_we_o,
      wb_adr_o   => m_wb_adr_o,
      wb_sel_o   => m_wb_sel_o,
      wb_dat_o   => m_wb_dat_o,
      wb_ack_i   => m_wb_ack_i,
      wb_err_i   => m_wb_err_i,
      wb_stall_i => m_wb_stall_i,
      wb_dat_i   => m_wb_dat_i
    );

end architecture rtl;
