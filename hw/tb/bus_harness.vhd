-- SPDX-License-Identifier: MIT
-- An allocator on a bus between a processor and a memory, for benches: AXI4-Lite or Wishbone behind the same commands.
-- A command begins with a one for one cycle in write_i or read_i; all else stays till it is done.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity bus_harness is
  generic (
    axi_g       : boolean := true;  -- else Wishbone
    pipelined_g : boolean := false;
    posted_g    : boolean := false;
    hbs_g       : boolean := false;
    heap_log2_g : natural := 12
  );
  port (
    clk_i        : in    std_ulogic;
    rst_i        : in    std_ulogic;
    -- Commands, as axi_driver and wishbone_driver have them. Over AXI, a write and a read may be under way at once.
    write_i      : in    std_ulogic;
    read_i       : in    std_ulogic;
    addr_i       : in    std_ulogic_vector(7 downto 0);
    strobes_i    : in    std_ulogic_vector(3 downto 0) := "1111";
    wdata_i      : in    word_t;
    order_i      : in    natural range 0 to 2          := 0;
    between_i    : in    natural                       := 0;
    taken_i      : in    natural                       := 0;
    give_up_i    : in    natural                       := 0;
    write_done_o : out   std_ulogic;
    write_err_o  : out   std_ulogic;
    read_done_o  : out   std_ulogic;
    read_err_o   : out   std_ulogic;
    rdata_o      : out   word_t;
    -- The memory: it refuses; and the window in which the allocator may be.
    deny_i       : in    std_ulogic := '0';
    window_i     : in    word_t;
    bytes_i      : in    natural;
    -- The processor's own loads and stores there: a word in each cycle in which look_i is one.
    look_i       : in    std_ulogic := '0';
    look_we_i    : in    std_ulogic := '0';
    look_addr_i  : in    word_t     := (others => '0');
    look_wdata_i : in    word_t     := (others => '0');
    look_rdata_o : out   word_t
  );
end entity bus_harness;

architecture model of bus_harness is

begin

  make_bus : if axi_g generate

    signal s_awvalid, s_awready, s_wvalid, s_wready, s_bvalid, s_bready : std_ulogic;
    signal s_arvalid, s_arready, s_rvalid, s_rready                     : std_ulogic;
    signal s_awaddr, s_araddr                                           : std_ulogic_vector(7 downto 0);
    signal s_wdata, s_rdata                                             : word_t;
    signal s_wstrb, m_wstrb                                             : std_ulogic_vector(3 downto 0);
    signal s_bresp, s_rresp, m_bresp, m_rresp                           : std_ulogic_vector(1 downto 0);
    signal m_awvalid, m_awready, m_wvalid, m_wready, m_bvalid, m_bready : std_ulogic;
    signal m_arvalid, m_arready, m_rvalid, m_rready                     : std_ulogic;
    signal m_awaddr, m_araddr, m_wdata, m_rdata                         : word_t;
    signal m_awprot, m_arprot                                           : std_ulogic_vector(2 downto 0);

  begin

    processor : entity work.axi_driver
      port map (
        clk_i         => clk_i,
        write_i       => write_i,
        read_i        => read_i,
        addr_i        => addr_i,
        strobes_i     => strobes_i,
        wdata_i       => wdata_i,
        order_i       => order_i,
        between_i     => between_i,
        ready_i       => taken_i,
        write_done_o  => write_done_o,
        write_err_o   => write_err_o,
        read_done_o   => read_done_o,
        read_err_o    => read_err_o,
        rdata_o       => rdata_o,
        axi_awvalid_o => s_awvalid,
        axi_awready_i => s_awready,
        axi_awaddr_o  => s_awaddr,
        axi_wvalid_o  => s_wvalid,
        axi_wready_i  => s_wready,
        axi_wdata_o   => s_wdata,
        axi_wstrb_o   => s_wstrb,
        axi_bvalid_i  => s_bvalid,
        axi_bready_o  => s_bready,
        axi_bresp_i   => s_bresp,
        axi_arvalid_o => s_arvalid,
        axi_arready_i => s_arready,
        axi_araddr_o  => s_araddr,
        axi_rvalid_i  => s_rvalid,
        axi_rready_o  => s_rready,
        axi_rdata_i   => s_rdata,
        axi_rresp_i   => s_rresp
      );

    unit : entity work.coffer_axi
      generic map (
        hbs_g       => hbs_g,
        heap_log2_g => heap_log2_g,
        posted_g    => posted_g
      )
      port map (
        clk_i           => clk_i,
        rst_i           => rst_i,
        s_axi_awvalid_i => s_awvalid,
        s_axi_awready_o => s_awready,
        s_axi_awaddr_i  => s_awaddr,
        s_axi_wvalid_i  => s_wvalid,
        s_axi_wready_o  => s_wready,
        s_axi_wdata_i   => s_wdata,
        s_axi_wstrb_i   => s_wstrb,
        s_axi_bvalid_o  => s_bvalid,
        s_axi_bready_i  => s_bready,
        s_axi_bresp_o   => s_bresp,
        s_axi_arvalid_i => s_arvalid,
        s_axi_arready_o => s_arready,
        s_axi_araddr_i  => s_araddr,
        s_axi_rvalid_o  => s_rvalid,
        s_axi_rready_i  => s_rready,
        s_axi_rdata_o   => s_rdata,
        s_axi_rresp_o   => s_rresp,
        m_axi_awvalid_o => m_awvalid,
        m_axi_awready_i => m_awready,
        m_axi_awaddr_o  => m_awaddr,
        m_axi_awprot_o  => m_awprot,
        m_axi_wvalid_o  => m_wvalid,
        m_axi_wready_i  => m_wready,
        m_axi_wdata_o   => m_wdata,
        m_axi_wstrb_o   => m_wstrb,
        m_axi_bvalid_i  => m_bvalid,
        m_axi_bready_o  => m_bready,
        m_axi_bresp_i   => m_bresp,
        m_axi_arvalid_o => m_arvalid,
        m_axi_arready_i => m_arready,
        m_axi_araddr_o  => m_araddr,
        m_axi_arprot_o  => m_arprot,
        m_axi_rvalid_i  => m_rvalid,
        m_axi_rready_o  => m_rready,
        m_axi_rdata_i   => m_rdata,
        m_axi_rresp_i   => m_rresp
      );

    memory : entity work.axi_memory
      port map (
        clk_i         => clk_i,
        deny_i        => deny_i,
        base_i        => window_i,
        bytes_i       => bytes_i,
        look_i        => look_i,
        look_we_i     => look_we_i,
        look_addr_i   => look_addr_i,
        look_wdata_i  => look_wdata_i,
        look_rdata_o  => look_rdata_o,
        axi_awvalid_i => m_awvalid,
        axi_awready_o => m_awready,
        axi_awaddr_i  => m_awaddr,
        axi_awprot_i  => m_awprot,
        axi_wvalid_i  => m_wvalid,
        axi_wready_o  => m_wready,
        axi_wdata_i   => m_wdata,
        axi_wstrb_i   => m_wstrb,
        axi_bvalid_o  => m_bvalid,
        axi_bready_i  => m_bready,
        axi_bresp_o   => m_bresp,
        axi_arvalid_i => m_arvalid,
        axi_arready_o => m_arready,
        axi_araddr_i  => m_araddr,
        axi_arprot_i  => m_arprot,
        axi_rvalid_o  => m_rvalid,
        axi_rready_i  => m_rready,
        axi_rdata_o   => m_rdata,
        axi_rresp_o   => m_rresp
      );

  else generate

    signal s_cyc, s_stb, s_we, s_ack, s_err, s_stall : std_ulogic;
    signal m_cyc, m_stb, m_we, m_ack, m_err, m_stall : std_ulogic;
    signal s_adr                                     : std_ulogic_vector(7 downto 0);
    signal s_sel, m_sel                              : std_ulogic_vector(3 downto 0);
    signal s_dat_w, s_dat_r, m_adr, m_dat_w, m_dat_r : word_t;
    signal go, done, err, was_write                  : std_ulogic;

  begin

    go           <= write_i or read_i;
    was_write    <= write_i when rising_edge(clk_i) and go = '1';
    write_done_o <= done and was_write;
    read_done_o  <= done and not was_write;
    write_err_o  <= err;
    read_err_o   <= err;

    processor : entity work.wishbone_driver
      generic map (
        pipelined_g => pipelined_g
      )
      port map (
        clk_i      => clk_i,
        go_i       => go,
        we_i       => write_i,
        addr_i     => addr_i,
        strobes_i  => strobes_i,
        wdata_i    => wdata_i,
        pause_i    => between_i,
        give_up_i  => give_up_i,
        done_o     => done,
        err_o      => err,
        rdata_o    => rdata_o,
        wb_cyc_o   => s_cyc,
        wb_stb_o   => s_stb,
        wb_we_o    => s_we,
        wb_adr_o   => s_adr,
        wb_sel_o   => s_sel,
        wb_dat_o   => s_dat_w,
        wb_ack_i   => s_ack,
        wb_err_i   => s_err,
        wb_stall_i => s_stall,
        wb_dat_i   => s_dat_r
      );

    unit : entity work.coffer_wishbone
      generic map (
        hbs_g       => hbs_g,
        heap_log2_g => heap_log2_g,
        posted_g    => posted_g,
        pipelined_g => pipelined_g
      )
      port map (
        clk_i        => clk_i,
        rst_i        => rst_i,
        s_wb_cyc_i   => s_cyc,
        s_wb_stb_i   => s_stb,
        s_wb_we_i    => s_we,
        s_wb_adr_i   => s_adr,
        s_wb_sel_i   => s_sel,
        s_wb_dat_i   => s_dat_w,
        s_wb_ack_o   => s_ack,
        s_wb_err_o   => s_err,
        s_wb_stall_o => s_stall,
        s_wb_dat_o   => s_dat_r,
        m_wb_cyc_o   => m_cyc,
        m_wb_stb_o   => m_stb,
        m_wb_we_o    => m_we,
        m_wb_adr_o   => m_adr,
        m_wb_sel_o   => m_sel,
        m_wb_dat_o   => m_dat_w,
        m_wb_ack_i   => m_ack,
        m_wb_err_i   => m_err,
        m_wb_stall_i => m_stall,
        m_wb_dat_i   => m_dat_r
      );

    memory : entity work.wishbone_memory
      generic map (
        pipelined_g => pipelined_g
      )
      port map (
        clk_i      => clk_i,
        deny_i     => deny_i,
        base_i     => window_i,
        bytes_i    => bytes_i,
        look_i       => look_i,
        look_we_i    => look_we_i,
        look_addr_i  => look_addr_i,
        look_wdata_i => look_wdata_i,
        look_rdata_o => look_rdata_o,
        wb_cyc_i   => m_cyc,
        wb_stb_i   => m_stb,
        wb_we_i    => m_we,
        wb_adr_i   => m_adr,
        wb_sel_i   => m_sel,
        wb_dat_i   => m_dat_w,
        wb_ack_o   => m_ack,
        wb_err_o   => m_err,
        wb_stall_o => m_stall,
        wb_dat_o   => m_dat_r
      );

  end generate make_bus;

end architecture model;
