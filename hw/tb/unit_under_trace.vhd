-- The units that a trace can drive, by name, behind one face.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity unit_under_trace is
  generic (
    unit_g     : string     := "hbs";
    free_bit_g : std_ulogic := '0';
    heap_log2_g : natural   := 25  -- OHEBS has an index for each size up to this
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
    mem_req_o   : out   std_ulogic;
    mem_we_o    : out   std_ulogic;
    mem_addr_o  : out   word_t;
    mem_wdata_o : out   word_t;
    mem_ack_i   : in    std_ulogic;
    mem_rdata_i : in    word_t
  );
end entity unit_under_trace;

architecture model of unit_under_trace is

  signal late : status_t := status_ok_c;

begin

  assert unit_g = "hbs" or unit_g = "hbs_reference" or unit_g = "ohebs" or unit_g = "ohebs_waiting"
         or unit_g = "ohebs_posted" or unit_g = "ohebs_joining" or unit_g = "ohebs_tight"
    report "no unit is called " & unit_g
    severity failure;

  make_hbs : if unit_g = "hbs" or unit_g = "hbs_reference" generate

    unit : entity work.hbs
      generic map (
        optimised_g => unit_g = "hbs",
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

  end generate make_hbs;

  -- waiting: without Fast Return. posted: frees are answered at once. joining: with recombination on the way to the
  -- lists. tight: the smallest buffers, joining, marks that are equal.
  make_ohebs : if unit_g(1 to minimum(5, unit_g'length)) = "ohebs" generate

    constant tight_c : boolean := unit_g = "ohebs_tight";

    function buffers (tight, other : natural) return per_index_t is
    begin
      if tight_c then
        return (others => tight);
      end if;
      return (others => other);
    end function buffers;

  begin

    unit : entity work.ohebs
      generic map (
        heap_log2_g   => heap_log2_g,
        depths_g      => buffers(2, 8),
        lows_g        => buffers(1, 2),
        highs_g       => buffers(1, 6),
        fast_return_g => unit_g /= "ohebs_waiting",
        posted_g      => unit_g = "ohebs_posted",
        recombine_g   => unit_g = "ohebs_joining" or tight_c,
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
        mem_req_o   => mem_req_o,
        mem_we_o    => mem_we_o,
        mem_addr_o  => mem_addr_o,
        mem_wdata_o => mem_wdata_o,
        mem_ack_i   => mem_ack_i,
        mem_rdata_i => mem_rdata_i
      );

    assert late = status_ok_c or rst_i /= '0'
      report "a posted free has gone wrong: status " & to_string(late)
      severity failure;

  end generate make_ohebs;

end architecture model;
