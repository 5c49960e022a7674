-- SPDX-License-Identifier: MIT
-- Wishbone B4, 32 bits wide, as accesses of register_face: one at a time, ended by ack_o or, if register_face refuses
-- it, by err_o, each for one cycle. Classic masters keep their strobe until then. Pipelined masters look at stall_o,
-- which makes them do the same, so they can be connected as they are.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity wishbone_slave is
  port (
    clk_i      : in    std_ulogic;
    rst_i      : in    std_ulogic;
    -- The bus. The lowest two bits of addresses do not matter.
    wb_cyc_i   : in    std_ulogic;
    wb_stb_i   : in    std_ulogic;
    wb_we_i    : in    std_ulogic;
    wb_adr_i   : in    std_ulogic_vector(7 downto 0);
    wb_sel_i   : in    std_ulogic_vector(3 downto 0);
    wb_dat_i   : in    word_t;
    wb_ack_o   : out   std_ulogic;
    wb_err_o   : out   std_ulogic;
    wb_stall_o : out   std_ulogic;
    wb_dat_o   : out   word_t;
    -- register_face.
    sel_o      : out   std_ulogic;
    we_o       : out   std_ulogic;
    addr_o     : out   std_ulogic_vector(7 downto 0);
    strobes_o  : out   std_ulogic_vector(3 downto 0);
    wdata_o    : out   word_t;
    ack_i      : in    std_ulogic;
    err_i      : in    std_ulogic;
    rdata_i    : in    word_t
  );
end entity wishbone_slave;

architecture rtl of wishbone_slave is

begin

  -- Nothing is kept here: the master holds still, and register_face leaves a cycle between two accesses.
  sel_o      <= wb_cyc_i and wb_stb_i;
  we_o       <= wb_we_i;
  addr_o     <= wb_adr_i;
  strobes_o  <= wb_sel_i;
  wdata_o    <= wb_dat_i;
  wb_ack_o   <= wb_cyc_i and wb_stb_i and ack_i and not err_i and not rst_i;
  wb_err_o   <= wb_cyc_i and wb_stb_i and ack_i and err_i and not rst_i;
  wb_stall_o <= wb_cyc_i and not ack_i;
  wb_dat_o   <= rdata_i;

end architecture rtl;
