-- SPDX-License-Identifier: MIT
-- What tb_hbs, tb_ohebs and tb_trace have in common: a unit with its memory. While looks_i is one, the memory is the
-- bench's own, and the unit must be at rest.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;
  use work.unit_calls.all;

entity unit_harness is
  generic (
    -- unit_under_trace's.
    unit_g        : string     := "hbs";
    free_bit_g    : std_ulogic := '0';
    heap_log2_g   : natural    := 16;
    depth_g       : natural    := 0;
    small_depth_g : natural    := 0;
    small_to_g    : natural    := 7;
    low_g         : integer    := -1;
    high_g        : integer    := -1;
    -- The memory: SDRAM with sdram_bank's generics, or plain, and each transfer takes plain_g cycles.
    sdram_g       : boolean    := false;
    plain_g       : positive   := 1;
    lead_g        : natural    := 0;
    rcd_g         : positive   := 2;
    rc_g          : positive   := 7;
    refresh_g     : positive   := 1562
  );
  port (
    clk_i        : in    std_ulogic;
    rst_i        : in    std_ulogic;
    ask_i        : in    ask_t;
    seen_o       : out   seen_t;
    looks_i      : in    std_ulogic := '0';
    look_req_i   : in    std_ulogic := '0';
    look_we_i    : in    std_ulogic := '0';
    look_addr_i  : in    word_t     := (others => '0');
    look_wdata_i : in    word_t     := (others => '0');
    look_ack_o   : out   std_ulogic;
    look_rdata_o : out   word_t
  );
end entity unit_harness;

architecture model of unit_harness is

  signal unit_req, unit_we     : std_ulogic;
  signal unit_addr, unit_wdata : word_t;
  signal unit_ack              : std_ulogic;
  signal req, we, ack          : std_ulogic;
  signal addr, wdata, rdata    : word_t;

begin

  unit : entity work.unit_under_trace
    generic map (
      unit_g        => unit_g,
      free_bit_g    => free_bit_g,
      heap_log2_g   => heap_log2_g,
      depth_g       => depth_g,
      small_depth_g => small_depth_g,
      small_to_g    => small_to_g,
      low_g         => low_g,
      high_g        => high_g
    )
    port map (
      clk_i       => clk_i,
      rst_i       => rst_i,
      op_i        => ask_i.op,
      data_i      => ask_i.data,
      wdata_i     => ask_i.store,
      ready_o     => seen_o.ready,
      done_o      => seen_o.done,
      status_o    => seen_o.status,
      result_o    => seen_o.result,
      phase_o     => seen_o.phase,
      how_o       => seen_o.how,
      late_o      => open,
      mem_req_o   => unit_req,
      mem_we_o    => unit_we,
      mem_addr_o  => unit_addr,
      mem_wdata_o => unit_wdata,
      mem_ack_i   => unit_ack,
      mem_rdata_i => rdata
    );

  req          <= look_req_i when looks_i = '1' else unit_req;
  we           <= look_we_i when looks_i = '1' else unit_we;
  addr         <= look_addr_i when looks_i = '1' else unit_addr;
  wdata        <= look_wdata_i when looks_i = '1' else unit_wdata;
  unit_ack     <= ack and not looks_i;
  seen_o.ack   <= unit_ack;
  look_ack_o   <= ack and looks_i;
  look_rdata_o <= rdata;

  make_memory : if sdram_g generate

    memory : entity work.sdram_bank
      generic map (
        lead_g    => lead_g,
        rcd_g     => rcd_g,
        rc_g      => rc_g,
        refresh_g => refresh_g
      )
      port map (
        clk_i   => clk_i,
        rst_i   => rst_i,
        req_i   => req,
        we_i    => we,
        addr_i  => addr,
        wdata_i => wdata,
        ack_o   => ack,
        rdata_o => rdata
      );

  else generate

    memory : entity work.plain_memory
      generic map (
        read_cycles_g  => plain_g,
        write_cycles_g => plain_g
      )
      port map (
        clk_i   => clk_i,
        req_i   => req,
        we_i    => we,
        addr_i  => addr,
        wdata_i => wdata,
        ack_o   => ack,
        rdata_o => rdata
      );

  end generate make_memory;

end architecture model;
