-- SPDX-License-Identifier: MIT
-- A processor's side of AXI4-Lite for benches: one write and one read at a time, independent of each other, with the
-- handshakes in the order that is asked for. It fails if the slave takes back or changes what it has offered.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity axi_driver is
  port (
    clk_i         : in    std_ulogic;
    -- A command begins with a one for one cycle, and all else stays till it is done.
    write_i       : in    std_ulogic;
    read_i        : in    std_ulogic;
    addr_i        : in    std_ulogic_vector(7 downto 0);
    strobes_i     : in    std_ulogic_vector(3 downto 0);
    wdata_i       : in    word_t;
    order_i       : in    natural range 0 to 2;  -- of a write, first: both at once; the address; the data
    between_i     : in    natural;               -- cycles from the first to the second
    ready_i       : in    natural;               -- cycles before an answer is taken; 0: ready from the beginning
    write_done_o  : out   std_ulogic := '0';
    write_err_o   : out   std_ulogic;
    read_done_o   : out   std_ulogic := '0';
    read_err_o    : out   std_ulogic;
    rdata_o       : out   word_t;
    -- The bus.
    axi_awvalid_o : out   std_ulogic := '0';
    axi_awready_i : in    std_ulogic;
    axi_awaddr_o  : out   std_ulogic_vector(7 downto 0);
    axi_wvalid_o  : out   std_ulogic := '0';
    axi_wready_i  : in    std_ulogic;
    axi_wdata_o   : out   word_t;
    axi_wstrb_o   : out   std_ulogic_vector(3 downto 0);
    axi_bvalid_i  : in    std_ulogic;
    axi_bready_o  : out   std_ulogic := '0';
    axi_bresp_i   : in    std_ulogic_vector(1 downto 0);
    axi_arvalid_o : out   std_ulogic := '0';
    axi_arready_i : in    std_ulogic;
    axi_araddr_o  : out   std_ulogic_vector(7 downto 0);
    axi_rvalid_i  : in    std_ulogic;
    axi_rready_o  : out   std_ulogic := '0';
    axi_rdata_i   : in    word_t;
    axi_rresp_i   : in    std_ulogic_vector(1 downto 0)
  );
end entity axi_driver;

architecture model of axi_driver is

  procedure check_response (response : std_ulogic_vector(1 downto 0)) is
  begin
    assert response = "00" or response = "10"
      report "axi_driver: no response of AXI4-Lite's: " & to_string(response)
      severity failure;
  end procedure check_response;

begin

  offer_address : process is
  begin
    wait until rising_edge(clk_i) and write_i = '1';
    if order_i = 2 then
      wait until rising_edge(clk_i) and axi_wvalid_o = '1' and axi_wready_i = '1';
      for i in 1 to between_i loop
        wait until rising_edge(clk_i);
      end loop;
    end if;
    axi_awvalid_o <= '1';
    axi_awaddr_o <= addr_i;
    wait until rising_edge(clk_i) and axi_awready_i = '1';
    axi_awvalid_o <= '0';
    axi_awaddr_o <= (others => 'X');
  end process offer_address;

  offer_data : process is
  begin
    wait until rising_edge(clk_i) and write_i = '1';
    if order_i = 1 then
      wait until rising_edge(clk_i) and axi_awvalid_o = '1' and axi_awready_i = '1';
      for i in 1 to between_i loop
        wait until rising_edge(clk_i);
      end loop;
    end if;
    axi_wvalid_o <= '1';
    axi_wdata_o <= wdata_i;
    axi_wstrb_o <= strobes_i;
    wait until rising_edge(clk_i) and axi_wready_i = '1';
    axi_wvalid_o <= '0';
    axi_wdata_o <= (others => 'X');
    axi_wstrb_o <= (others => 'X');
  end process offer_data;

  take_write_answer : process is
    variable response : std_ulogic_vector(1 downto 0);
  begin
    wait until rising_edge(clk_i) and write_i = '1';
    axi_bready_o <= '1' when ready_i = 0 else '0';
    wait until rising_edge(clk_i) and axi_bvalid_i = '1';
    response := axi_bresp_i;
    check_response(response);
    for i in 1 to ready_i loop
      axi_bready_o <= '1' when i = ready_i else '0';
      wait until rising_edge(clk_i);
      assert axi_bvalid_i = '1' and axi_bresp_i = response
        report "axi_driver: the answer of a write has changed before it was taken"
        severity failure;
    end loop;
    axi_bready_o <= '0';
    write_err_o <= response(1);
    write_done_o <= '1';
    wait until rising_edge(clk_i);
    write_done_o <= '0';
  end process take_write_answer;

  read : process is
    variable response : std_ulogic_vector(1 downto 0);
    variable data     : word_t;
  begin
    wait until rising_edge(clk_i) and read_i = '1';
    axi_arvalid_o <= '1';
    axi_araddr_o <= addr_i;
    axi_rready_o <= '1' when ready_i = 0 else '0';
    wait until rising_edge(clk_i) and axi_arready_i = '1';
    axi_arvalid_o <= '0';
    axi_araddr_o <= (others => 'X');
    wait until rising_edge(clk_i) and axi_rvalid_i = '1';
    response := axi_rresp_i;
    data := axi_rdata_i;
    check_response(response);
    for i in 1 to ready_i loop
      axi_rready_o <= '1' when i = ready_i else '0';
      wait until rising_edge(clk_i);
      assert axi_rvalid_i = '1' and axi_rresp_i = response and axi_rdata_i = data
        report "axi_driver: the answer of a read has changed before it was taken"
        severity failure;
    end loop;
    axi_rready_o <= '0';
    read_err_o <= response(1);
    rdata_o <= data;
    read_done_o <= '1';
    wait until rising_edge(clk_i);
    read_done_o <= '0';
  end process read;

end architecture model;
