-- SPDX-License-Identifier: MIT
-- The RAM Interface (thesis, section 5.4.2): one transfer at a time, for the CPU interface first, else for the index
-- that ram_priority selects. So that nobody starves, after turns_g transfers in a row that the processor has waited for
-- one of the snapshot is served if there is one (doc/decisions.md, 14).
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity ram_interface is
  generic (
    min_log2_g  : natural  := 4;
    heap_log2_g : natural  := 25;
    turns_g     : positive := 8
  );
  port (
    clk_i       : in    std_ulogic;
    rst_i       : in    std_ulogic;
    hold_i      : in    std_ulogic;  -- grant nothing but what the CPU interface asks
    still_o     : out   std_ulogic;  -- no transfer is under way
    dependent_i : in    word_t;
    -- The CPU interface.
    cpu_req_i   : in    std_ulogic;
    cpu_we_i    : in    std_ulogic;
    cpu_addr_i  : in    word_t;
    cpu_wdata_i : in    word_t;
    cpu_ack_o   : out   std_ulogic;
    -- The indices.
    req_i       : in    word_t;
    we_i        : in    word_t;
    addr_i      : in    words_t(min_log2_g to heap_log2_g);
    wdata_i     : in    words_t(min_log2_g to heap_log2_g);
    ack_o       : out   word_t;
    -- Memory.
    mem_req_o   : out   std_ulogic;
    mem_we_o    : out   std_ulogic;
    mem_addr_o  : out   word_t;
    mem_wdata_o : out   word_t;
    mem_ack_i   : in    std_ulogic
  );
end entity ram_interface;

architecture rtl of ram_interface is

  signal req      : std_ulogic;
  signal for_cpu  : std_ulogic;
  signal owner    : word_t;
  signal selected : word_t;
  signal urgent   : std_ulogic;
  signal granted  : std_ulogic;
  signal fair     : std_ulogic;
  signal turns    : natural range 0 to turns_g;

begin

  priorities : entity work.ram_priority
    port map (
      clk_i       => clk_i,
      rst_i       => rst_i,
      requests_i  => req_i,
      dependent_i => dependent_i,
      fair_i      => fair,
      granted_i   => granted,
      selected_o  => selected,
      urgent_o    => urgent
    );

  fair        <= '1' when turns = turns_g and or_all(req_i) = '1' else '0';
  granted     <= '1' when req = '0' and hold_i = '0' and (cpu_req_i = '0' or fair = '1') and or_all(req_i) = '1'
                 else '0';

  still_o   <= not req;
  mem_req_o <= req;
  cpu_ack_o <= mem_ack_i and for_cpu;
  ack_o     <= owner when mem_ack_i = '1' and for_cpu = '0' else (others => '0');

  run : process (clk_i) is

    variable address, value : word_t;

  begin
    if rising_edge(clk_i) then
      if req = '1' then
        if mem_ack_i = '1' then
          req <= '0';
        end if;
      elsif granted = '1' then
        address := (others => '0');
        value   := (others => '0');
        for k in addr_i'range loop
          if selected(k) = '1' then
            address := address or addr_i(k);
            value   := value or wdata_i(k);
          end if;
        end loop;
        req         <= '1';
        for_cpu     <= '0';
        owner       <= selected;
        mem_we_o    <= or_all(we_i and selected);
        mem_addr_o  <= address;
        mem_wdata_o <= value;
        if urgent = '0' then
          turns <= 0;
        elsif turns /= turns_g then
          turns <= turns + 1;
        end if;
      elsif cpu_req_i = '1' then
        req         <= '1';
        for_cpu     <= '1';
        owner       <= (others => '0');
        mem_we_o    <= cpu_we_i;
        mem_addr_o  <= cpu_addr_i;
        mem_wdata_o <= cpu_wdata_i;
        if turns /= turns_g then
          turns <= turns + 1;
        end if;
      end if;
      if rst_i = '1' then
        req     <= '0';
        for_cpu <= '0';
        owner   <= (others => '0');
        turns   <= 0;
      end if;
    end if;
  end process run;

end architecture rtl;
