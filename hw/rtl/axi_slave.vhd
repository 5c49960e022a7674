-- SPDX-License-Identifier: MIT
-- AXI4-Lite, 32 bits wide, as accesses of register_face. Address and data of a write may come in any order; each of the
-- five channels holds one transfer, and an answer that is not taken does not hold up the other direction. Whatever
-- register_face refuses ends with SLVERR.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity axi_slave is
  port (
    clk_i         : in    std_ulogic;
    rst_i         : in    std_ulogic;
    -- The bus. Protection does not matter here, nor do the lowest two bits of addresses.
    axi_awvalid_i : in    std_ulogic;
    axi_awready_o : out   std_ulogic;
    axi_awaddr_i  : in    std_ulogic_vector(7 downto 0);
    axi_wvalid_i  : in    std_ulogic;
    axi_wready_o  : out   std_ulogic;
    axi_wdata_i   : in    word_t;
    axi_wstrb_i   : in    std_ulogic_vector(3 downto 0);
    axi_bvalid_o  : out   std_ulogic;
    axi_bready_i  : in    std_ulogic;
    axi_bresp_o   : out   std_ulogic_vector(1 downto 0);
    axi_arvalid_i : in    std_ulogic;
    axi_arready_o : out   std_ulogic;
    axi_araddr_i  : in    std_ulogic_vector(7 downto 0);
    axi_rvalid_o  : out   std_ulogic;
    axi_rready_i  : in    std_ulogic;
    axi_rdata_o   : out   word_t;
    axi_rresp_o   : out   std_ulogic_vector(1 downto 0);
    -- register_face.
    sel_o         : out   std_ulogic;
    we_o          : out   std_ulogic;
    addr_o        : out   std_ulogic_vector(7 downto 0);
    strobes_o     : out   std_ulogic_vector(3 downto 0);
    wdata_o       : out   word_t;
    ack_i         : in    std_ulogic;
    err_i         : in    std_ulogic;
    rdata_i       : in    word_t
  );
end entity axi_slave;

architecture rtl of axi_slave is

  type state_t is (idle, reading, writing);

  signal state                    : state_t;
  signal has_aw, has_w, has_ar    : std_ulogic;
  signal aw_addr, ar_addr         : std_ulogic_vector(7 downto 0);
  signal bvalid, rvalid           : std_ulogic;
  signal write_next               : std_ulogic;  -- a write's turn, if both are waiting
  signal may_read, may_write      : boolean;

begin

  axi_awready_o <= not has_aw;
  axi_wready_o  <= not has_w;
  axi_arready_o <= not has_ar;
  axi_bvalid_o  <= bvalid;
  axi_rvalid_o  <= rvalid;

  sel_o  <= '1' when state /= idle else '0';
  we_o   <= '1' when state = writing else '0';
  addr_o <= aw_addr when state = writing else ar_addr;

  may_read  <= has_ar = '1' and rvalid = '0';
  may_write <= has_aw = '1' and has_w = '1' and bvalid = '0';

  run : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      if axi_awvalid_i = '1' and has_aw = '0' then
        has_aw  <= '1';
        aw_addr <= axi_awaddr_i;
      end if;
      if axi_wvalid_i = '1' and has_w = '0' then
        has_w     <= '1';
        wdata_o   <= axi_wdata_i;
        strobes_o <= axi_wstrb_i;
      end if;
      if axi_arvalid_i = '1' and has_ar = '0' then
        has_ar  <= '1';
        ar_addr <= axi_araddr_i;
      end if;
      if axi_bready_i = '1' then
        bvalid <= '0';
      end if;
      if axi_rready_i = '1' then
        rvalid <= '0';
      end if;

      case state is

        when idle =>
          if may_write and (write_next = '1' or not may_read) then
            state <= writing;
          elsif may_read then
            state <= reading;
          end if;

        when reading =>
          if ack_i = '1' then
            has_ar      <= '0';
            rvalid      <= '1';
            axi_rdata_o <= rdata_i;
            axi_rresp_o <= err_i & '0';
            write_next  <= '1';
            state       <= idle;
          end if;

        when writing =>
          if ack_i = '1' then
            has_aw      <= '0';
            has_w       <= '0';
            bvalid      <= '1';
            axi_bresp_o <= err_i & '0';
            write_next  <= '0';
            state       <= idle;
          end if;

      end case;

      if rst_i = '1' then
        state      <= idle;
        has_aw     <= '0';
        has_w      <= '0';
        has_ar     <= '0';
        bvalid     <= '0';
        rvalid     <= '0';
        write_next <= '0';
      end if;
    end if;
  end process run;

end architecture rtl;
