-- SPDX-License-Identifier: MIT
-- The allocator's transfers over Wishbone B4, 32 bits wide, one at a time: an offset into the heap becomes an address
-- by adding base_i. Classic, the strobe stays until the answer; pipelined, until the slave does not stall. A transfer
-- that ends with an error ends as all others do, so that nothing hangs; what is read then is all ones, which is neither
-- a header nor a link, and fault_o says so.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity wishbone_master is
  generic (
    pipelined_g : boolean := false
  );
  port (
    clk_i      : in    std_ulogic;
    rst_i      : in    std_ulogic;
    base_i     : in    word_t;
    hold_i     : in    std_ulogic;
    still_o    : out   std_ulogic;
    fault_o    : out   std_ulogic;
    -- The allocator.
    req_i      : in    std_ulogic;
    we_i       : in    std_ulogic;
    addr_i     : in    word_t;
    wdata_i    : in    word_t;
    ack_o      : out   std_ulogic;
    rdata_o    : out   word_t;
    -- The bus.
    wb_cyc_o   : out   std_ulogic;
    wb_stb_o   : out   std_ulogic;
    wb_we_o    : out   std_ulogic;
    wb_adr_o   : out   word_t;
    wb_sel_o   : out   std_ulogic_vector(3 downto 0);
    wb_dat_o   : out   word_t;
    wb_ack_i   : in    std_ulogic;
    wb_err_i   : in    std_ulogic;
    wb_stall_i : in    std_ulogic;  -- not looked at unless pipelined_g
    wb_dat_i   : in    word_t
  );
end entity wishbone_master;

architecture rtl of wishbone_master is

  signal cyc, stb : std_ulogic;
  signal ack      : std_ulogic;

begin

  wb_cyc_o <= cyc;
  wb_stb_o <= stb;
  wb_sel_o <= "1111";
  ack_o    <= ack;
  still_o  <= not cyc and not ack;

  run : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      ack     <= '0';
      fault_o <= '0';
      if cyc = '1' then
        if pipelined_g and wb_stall_i = '0' then
          stb <= '0';
        end if;
        if wb_ack_i = '1' or wb_err_i = '1' then
          cyc     <= '0';
          stb     <= '0';
          ack     <= '1';
          rdata_o <= wb_dat_i;
          if wb_err_i = '1' then
            fault_o <= '1';
            rdata_o <= nothing_c;
          end if;
        end if;
      elsif req_i = '1' and ack = '0' and hold_i = '0' then
        -- The cycle of the answer still shows the old request.
        cyc      <= '1';
        stb      <= '1';
        wb_we_o  <= we_i;
        wb_adr_o <= std_ulogic_vector(unsigned(base_i) + unsigned(addr_i));
        wb_dat_o <= wdata_i;
      end if;
      if rst_i = '1' then
        cyc     <= '0';
        stb     <= '0';
        ack     <= '0';
        fault_o <= '0';
      end if;
    end if;
  end process run;

end architecture rtl;
