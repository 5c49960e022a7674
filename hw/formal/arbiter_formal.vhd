-- SPDX-License-Identifier: MIT
-- ram_interface with three indices and a processor that ask whenever they like, from any state: nobody waits for more
-- than limit_g transfers of others, and each answer goes to one who has asked.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity arbiter_formal is
  generic (
    turns_g : positive := 2;
    limit_g : positive := 18
  );
  port (
    clk_i       : in    std_ulogic;
    ask_i       : in    std_ulogic_vector(6 downto 4);
    cpu_ask_i   : in    std_ulogic;
    dependent_i : in    std_ulogic_vector(6 downto 4)
  );
end entity arbiter_formal;

architecture formal of arbiter_formal is

  signal rst     : std_ulogic := '1';
  signal asks    : std_ulogic_vector(6 downto 4) := "000";
  signal req     : word_t;
  signal cpu_req : std_ulogic := '0';
  signal ack     : word_t;
  signal cpu_ack : std_ulogic;
  signal mem_req : std_ulogic;
  signal depend  : word_t;
  signal waits   : natural range 0 to 63 := 0;  -- transfers that index 5 has waited for

begin

  req    <= x"000000" & '0' & asks & "0000";
  depend <= x"000000" & '0' & dependent_i & "0000";

  unit : entity work.ram_interface
    generic map (
      min_log2_g  => 4,
      heap_log2_g => 6,
      turns_g     => turns_g
    )
    port map (
      clk_i       => clk_i,
      rst_i       => rst,
      hold_i      => '0',
      still_o     => open,
      dependent_i => depend,
      cpu_req_i   => cpu_req,
      cpu_we_i    => '0',
      cpu_addr_i  => (others => '0'),
      cpu_wdata_i => (others => '0'),
      cpu_ack_o   => cpu_ack,
      req_i       => req,
      we_i        => (others => '0'),
      addr_i      => (others => (others => '0')),
      wdata_i     => (others => (others => '0')),
      ack_o       => ack,
      mem_req_o   => mem_req,
      mem_we_o    => open,
      mem_addr_o  => open,
      mem_wdata_o => open,
      mem_ack_i   => mem_req
    );

  ask : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      rst <= '0';
      for k in 4 to 6 loop
        if ack(k) = '1' then
          asks(k) <= '0';
        elsif asks(k) = '0' then
          asks(k) <= ask_i(k) and not rst;
        end if;
      end loop;
      if cpu_ack = '1' then
        cpu_req <= '0';
      elsif cpu_req = '0' then
        cpu_req <= cpu_ask_i and not rst;
      end if;
      if ack(5) = '1' or req(5) = '0' then
        waits <= 0;
      elsif mem_req = '1' and waits /= 63 then
        waits <= waits + 1;
      end if;
    end if;
  end process ask;

  default clock is rising_edge(clk_i);

  served : assert always waits <= limit_g;
  asked : assert always rst = '0' -> (ack and not req) = x"00000000";
  cpu_asked : assert always (rst = '0' and cpu_ack = '1') -> cpu_req = '1';
  one : assert always (rst = '0' and mem_req = '1') -> (or_all(ack) xor cpu_ack) = '1';

end architecture formal;
