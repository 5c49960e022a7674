-- SPDX-License-Identifier: MIT
-- An allocator on AXI4-Lite: its registers (doc/registers.md) as a slave, its own transfers of memory as a master.
-- doc/axi.md says how to connect it.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity coffer_axi is
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
    clk_i           : in    std_ulogic;
    rst_i           : in    std_ulogic;
    -- Registers: what a processor connects to.
    s_axi_awvalid_i : in    std_ulogic;
    s_axi_awready_o : out   std_ulogic;
    s_axi_awaddr_i  : in    std_ulogic_vector(7 downto 0);
    s_axi_wvalid_i  : in    std_ulogic;
    s_axi_wready_o  : out   std_ulogic;
    s_axi_wdata_i   : in    word_t;
    s_axi_wstrb_i   : in    std_ulogic_vector(3 downto 0);
    s_axi_bvalid_o  : out   std_ulogic;
    s_axi_bready_i  : in    std_ulogic;
    s_axi_bresp_o   : out   std_ulogic_vector(1 downto 0);
    s_axi_arvalid_i : in    std_ulogic;
    s_axi_arready_o : out   std_ulogic;
    s_axi_araddr_i  : in    std_ulogic_vector(7 downto 0);
    s_axi_rvalid_o  : out   std_ulogic;
    s_axi_rready_i  : in    std_ulogic;
    s_axi_rdata_o   : out   word_t;
    s_axi_rresp_o   : out   std_ulogic_vector(1 downto 0);
    -- Memory: where the heap is.
    m_axi_awvalid_o : out   std_ulogic;
    m_axi_awready_i : in    std_ulogic;
    m_axi_awaddr_o  : out   word_t;
    m_axi_awprot_o  : out   std_ulogic_vector(2 downto 0);
    m_axi_wvalid_o  : out   std_ulogic;
    m_axi_wready_i  : in    std_ulogic;
    m_axi_wdata_o   : out   word_t;
    m_axi_wstrb_o   : out   std_ulogic_vector(3 downto 0);
    m_axi_bvalid_i  : in    std_ulogic;
    m_axi_bready_o  : out   std_ulogic;
    m_axi_bresp_i   : in    std_ulogic_vector(1 downto 0);
    m_axi_arvalid_o : out   std_ulogic;
    m_axi_arready_i : in    std_ulogic;
    m_axi_araddr_o  : out   word_t;
    m_axi_arprot_o  : out   std_ulogic_vector(2 downto 0);
    m_axi_rvalid_i  : in    std_ulogic;
    m_axi_rready_o  : out   std_ulogic;
    m_axi_rdata_i   : in    word_t;
    m_axi_rresp_i   : in    std_ulogic_vector(1 downto 0)
  );
end entity coffer_axi;

architecture rtl of coffer_axi is

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

  registers : entity work.axi_slave
    port map (
      clk_i         => clk_i,
      rst_i         => rst_i,
      axi_awvalid_i => s_axi_awvalid_i,
      axi_awready_o => s_axi_awready_o,
      axi_awaddr_i  => s_axi_awaddr_i,
      axi_wvalid_i  => s_axi_wvalid_i,
      axi_wready_o  => s_axi_wready_o,
      axi_wdata_i   => s_axi_wdata_i,
      axi_wstrb_i   => s_axi_wstrb_i,
      axi_bvalid_o  => s_axi_bvalid_o,
      axi_bready_i  => s_axi_bready_i,
      axi_bresp_o   => s_axi_bresp_o,
      axi_arvalid_i => s_axi_arvalid_i,
      axi_arready_o => s_axi_arready_o,
      axi_araddr_i  => s_axi_araddr_i,
      axi_rvalid_o  => s_axi_rvalid_o,
      axi_rready_i  => s_axi_rready_i,
      axi_rdata_o   => s_axi_rdata_o,
      axi_rresp_o   => s_axi_rresp_o,
      sel_o         => sel,
      we_o          => face_we,
      addr_o        => face_addr,
      strobes_o     => strobes,
      wdata_o       => face_wdata,
      ack_i         => face_ack,
      err_i         => face_err,
      rdata_i       => face_rdata
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

  memory : entity work.axi_master
    port map (
      clk_i         => clk_i,
      rst_i         => rst_i,
      base_i        => base,
      hold_i        => hold,
      still_o       => still,
      fault_o       => fault,
      req_i         => req,
      we_i          => we,
      addr_i        => addr,
      wdata_i       => wdata,
      ack_o         => ack,
      rdata_o       => rdata,
      axi_awvalid_o => m_axi_awvalid_o,
      axi_awready_i => m_axi_awready_i,
      axi_awaddr_o  => m_axi_awaddr_o,
      axi_awprot_o  => m_axi_awprot_o,
      axi_wvalid_o  => m_axi_wvalid_o,
      axi_wready_i  => m_axi_wready_i,
      axi_wdata_o   => m_axi_wdata_o,
      axi_wstrb_o   => m_axi_wstrb_o,
      axi_bvalid_i  => m_axi_bvalid_i,
      axi_bready_o  => m_axi_bready_o,
      axi_bresp_i   => m_axi_bresp_i,
      axi_arvalid_o => m_axi_arvalid_o,
      axi_arready_i => m_axi_arready_i,
      axi_araddr_o  => m_axi_araddr_o,
      axi_arprot_o  => m_axi_arprot_o,
      axi_rvalid_i  => m_axi_rvalid_i,
      axi_rready_o  => m_axi_rready_o,
      axi_rdata_i   => m_axi_rdata_i,
      axi_rresp_i   => m_axi_rresp_i
    );

end architecture rtl;
