-- What Verilator simulates: a unit, alone or with the SDRAM's controller. The memory's cells are fast.cpp's.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity fast_top is
  generic (
    hbs_g         : boolean := false;
    heap_log2_g   : natural := 25;
    fast_return_g : boolean := true;
    posted_g      : boolean := false;
    recombine_g   : boolean := false;
    shared_g      : boolean := false;
    sdram_g       : boolean := false;
    lead_g        : natural := 0
  );
  port (
    clk_i      : in    std_ulogic;
    rst_i      : in    std_ulogic;
    op_i       : in    opcode_t;
    data_i     : in    word_t;
    ready_o    : out   std_ulogic;
    done_o     : out   std_ulogic;
    status_o   : out   status_t;
    result_o   : out   word_t;
    phase_o    : out   phase_t;
    how_o      : out   how_t;
    late_o     : out   status_t;
    -- Without sdram_g: a transfer is done in the cycle in which req_o and ack_i are both set.
    req_o      : out   std_ulogic;
    we_o       : out   std_ulogic;
    addr_o     : out   word_t;
    wdata_o    : out   word_t;
    ack_i      : in    std_ulogic;
    rdata_i    : in    word_t;
    -- With sdram_g: the chips' pins; their data come in rdata_i.
    tick_o     : out   std_ulogic;
    cs_n_o     : out   std_ulogic_vector(3 downto 0);
    command_o  : out   std_ulogic_vector(2 downto 0);
    bank_o     : out   std_ulogic_vector(1 downto 0);
    a_o        : out   std_ulogic_vector(11 downto 0);
    dq_o       : out   word_t
  );
end entity fast_top;

architecture rtl of fast_top is

  signal req, we, ack        : std_ulogic;
  signal addr, wdata, rdata  : word_t;

begin

  make_unit : if hbs_g generate

    unit : entity work.hbs
      generic map (
        heap_log2_g => heap_log2_g,
        optimised_g => fast_return_g
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
        mem_req_o   => req,
        mem_we_o    => we,
        mem_addr_o  => addr,
        mem_wdata_o => wdata,
        mem_ack_i   => ack,
        mem_rdata_i => rdata
      );

    how_o  <= how_none_c;
    late_o <= status_ok_c;

  else generate

    unit : entity work.ohebs
      generic map (
        heap_log2_g   => heap_log2_g,
        fast_return_g => fast_return_g,
        posted_g      => posted_g,
        recombine_g   => recombine_g,
        shared_g      => shared_g
      )
      port map (
        clk_i       => clk_i,
        rst_i       => rst_i,
        op_i        => op_i,
        data_i      => data_i,
        wdata_i     => data_i,
        ready_o     => ready_o,
        done_o      => done_o,
        status_o    => status_o,
        result_o    => result_o,
        late_o      => late_o,
        phase_o     => phase_o,
        how_o       => how_o,
        mem_req_o   => req,
        mem_we_o    => we,
        mem_addr_o  => addr,
        mem_wdata_o => wdata,
        mem_ack_i   => ack,
        mem_rdata_i => rdata
      );

  end generate make_unit;

  req_o   <= req;
  we_o    <= we;
  addr_o  <= addr;
  wdata_o <= wdata;

  make_memory : if sdram_g generate

    controller : entity work.sdram_controller
      generic map (
        -- As tb/sdram_bank.vhd has it.
        power_up_g => 20,
        lead_g     => lead_g
      )
      port map (
        clk_i   => clk_i,
        rst_i   => rst_i,
        req_i   => req,
        we_i    => we,
        addr_i  => addr,
        wdata_i => wdata,
        ack_o   => ack,
        rdata_o => rdata,
        tick_o  => tick_o,
        cs_n_o  => cs_n_o,
        ras_n_o => command_o(2),
        cas_n_o => command_o(1),
        we_n_o  => command_o(0),
        bank_o  => bank_o,
        a_o     => a_o,
        dq_o    => dq_o,
        dq_i    => rdata_i
      );

  else generate

    ack       <= ack_i;
    rdata     <= rdata_i;
    tick_o    <= '0';
    cs_n_o    <= "1111";
    command_o <= "111";
    bank_o    <= "00";
    a_o       <= (others => '0');
    dq_o      <= (others => '0');

  end generate make_memory;

end architecture rtl;
