-- The units that a trace can drive, by name, behind one face.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity unit_under_trace is
  generic (
    unit_g     : string     := "hbs";
    free_bit_g : std_ulogic := '0'
  );
  port (
    clk_i       : in    std_ulogic;
    rst_i       : in    std_ulogic;
    op_i        : in    opcode_t;
    data_i      : in    word_t;
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

begin

  assert unit_g = "hbs" or unit_g = "hbs_reference"
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

end architecture model;
