-- SPDX-License-Identifier: MIT
-- The allocator's transfers over AXI4-Lite, 32 bits wide, one at a time: an offset into the heap becomes an address by
-- adding base_i. A transfer that the bus refuses ends as all others do, so that nothing hangs; what is read then is all
-- ones, which is neither a header nor a link, and fault_o says so.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity axi_master is
  port (
    clk_i         : in    std_ulogic;
    rst_i         : in    std_ulogic;
    base_i        : in    word_t;
    hold_i        : in    std_ulogic;
    still_o       : out   std_ulogic;
    fault_o       : out   std_ulogic;
    -- The allocator.
    req_i         : in    std_ulogic;
    we_i          : in    std_ulogic;
    addr_i        : in    word_t;
    wdata_i       : in    word_t;
    ack_o         : out   std_ulogic;
    rdata_o       : out   word_t;
    -- The bus.
    axi_awvalid_o : out   std_ulogic;
    axi_awready_i : in    std_ulogic;
    axi_awaddr_o  : out   word_t;
    axi_awprot_o  : out   std_ulogic_vector(2 downto 0);
    axi_wvalid_o  : out   std_ulogic;
    axi_wready_i  : in    std_ulogic;
    axi_wdata_o   : out   word_t;
    axi_wstrb_o   : out   std_ulogic_vector(3 downto 0);
    axi_bvalid_i  : in    std_ulogic;
    axi_bready_o  : out   std_ulogic;
    axi_bresp_i   : in    std_ulogic_vector(1 downto 0);
    axi_arvalid_o : out   std_ulogic;
    axi_arready_i : in    std_ulogic;
    axi_araddr_o  : out   word_t;
    axi_arprot_o  : out   std_ulogic_vector(2 downto 0);
    axi_rvalid_i  : in    std_ulogic;
    axi_rready_o  : out   std_ulogic;
    axi_rdata_i   : in    word_t;
    axi_rresp_i   : in    std_ulogic_vector(1 downto 0)
  );
end entity axi_master;

architecture rtl of axi_master is

  type state_t is (idle, reading, writing);

  signal state                    : state_t;
  signal awvalid, wvalid, arvalid : std_ulogic;
  signal address                  : word_t;
  signal ack                      : std_ulogic;

begin

  axi_awvalid_o <= awvalid;
  axi_wvalid_o  <= wvalid;
  axi_arvalid_o <= arvalid;
  axi_awaddr_o  <= address;
  axi_araddr_o  <= address;
  axi_awprot_o  <= "000";
  axi_arprot_o  <= "000";
  axi_wstrb_o   <= "1111";
  -- Answers come one at a time, and are taken at once.
  axi_bready_o  <= '1' when state = writing else '0';
  axi_rready_o  <= '1' when state = reading else '0';

  ack_o   <= ack;
  still_o <= '1' when state = idle and ack = '0' else '0';

  run : process (clk_i) is

    procedure finish (response : std_ulogic_vector(1 downto 0); value : word_t) is
    begin
      ack     <= '1';
      rdata_o <= value;
      state   <= idle;
      if response(1) = '1' then
        fault_o <= '1';
        rdata_o <= nothing_c;
      end if;
    end procedure finish;

  begin
    if rising_edge(clk_i) then
      ack     <= '0';
      fault_o <= '0';
      if axi_awready_i = '1' then
        awvalid <= '0';
      end if;
      if axi_wready_i = '1' then
        wvalid <= '0';
      end if;
      if axi_arready_i = '1' then
        arvalid <= '0';
      end if;

      case state is

        when idle =>
          -- The cycle of the answer still shows the old request.
          if req_i = '1' and ack = '0' and hold_i = '0' then
            address     <= std_ulogic_vector(unsigned(base_i) + unsigned(addr_i));
            axi_wdata_o <= wdata_i;
            if we_i = '1' then
              awvalid <= '1';
              wvalid  <= '1';
              state   <= writing;
            else
              arvalid <= '1';
              state   <= reading;
            end if;
          end if;

        when reading =>
          if axi_rvalid_i = '1' then
            finish(axi_rresp_i, axi_rdata_i);
          end if;

        when writing =>
          if axi_bvalid_i = '1' then
            finish(axi_bresp_i, nothing_c);
          end if;

      end case;

      if rst_i = '1' then
        state   <= idle;
        awvalid <= '0';
        wvalid  <= '0';
        arvalid <= '0';
        ack     <= '0';
        fault_o <= '0';
      end if;
    end if;
  end process run;

end architecture rtl;
