-- SPDX-License-Identifier: MIT
-- ram_priority with three indices that ask whenever they like, and a processor that waits for any of them, from any
-- state: who is selected has asked; what the processor waits for comes first, the largest size first; and of the
-- others, nobody is served more than twice while one waits: once of the old snapshot, once of the new one, in which
-- that one is.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity ram_priority_formal is
  port (
    clk_i       : in    std_ulogic;
    ask_i       : in    std_ulogic_vector(2 downto 0);
    dependent_i : in    std_ulogic_vector(2 downto 0);
    fair_i      : in    std_ulogic;
    granted_i   : in    std_ulogic
  );
end entity ram_priority_formal;

architecture formal of ram_priority_formal is

  type counts_t is array (0 to 8) of natural range 0 to 7;

  signal rst        : std_ulogic := '1';
  signal asks       : std_ulogic_vector(2 downto 0) := "000";
  signal requests   : word_t;
  signal dependents : word_t;
  signal selected   : word_t;
  signal urgent     : std_ulogic;
  signal granted    : std_ulogic;
  signal urgents    : std_ulogic_vector(2 downto 0);
  -- How often one was served of the snapshot while another waited; 3 * one + other.
  signal passed     : counts_t := (others => 0);
  signal too_often  : std_ulogic;
  signal right_one  : std_ulogic;

begin

  requests   <= x"0000000" & '0' & asks;
  dependents <= x"0000000" & '0' & dependent_i;
  granted    <= granted_i and or_all(asks) and not rst;
  urgents    <= (asks and dependent_i) when fair_i = '0' else "000";

  unit : entity work.ram_priority
    port map (
      clk_i       => clk_i,
      rst_i       => rst,
      requests_i  => requests,
      dependent_i => dependents,
      fair_i      => fair_i,
      granted_i   => granted,
      selected_o  => selected,
      urgent_o    => urgent
    );

  right_one <= '1' when urgents = "000" or (selected(2 downto 0) and urgents) = highest(urgents) else '0';

  look : process (all) is
  begin
    too_often <= '0';
    for i in passed'range loop
      if passed(i) > 2 then
        too_often <= '1';
      end if;
    end loop;
  end process look;

  ask : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      rst <= '0';
      for k in 0 to 2 loop
        if granted = '1' and selected(k) = '1' then
          asks(k) <= '0';
        elsif asks(k) = '0' then
          asks(k) <= ask_i(k) and not rst;
        end if;
        for other in 0 to 2 loop
          if asks(other) = '0' or (granted = '1' and selected(other) = '1') then
            passed(3 * k + other) <= 0;
          elsif granted = '1' and urgent = '0' and selected(k) = '1' and passed(3 * k + other) /= 7 then
            passed(3 * k + other) <= passed(3 * k + other) + 1;
          end if;
        end loop;
      end loop;
    end if;
  end process ask;

  default clock is rising_edge(clk_i);

  asked : assert always (selected and not requests) = x"00000000";
  one : assert always (rst = '0' and or_all(requests) = '1') -> or_all(selected) = '1';
  alone : assert always (selected and std_ulogic_vector(unsigned(selected) - 1)) = x"00000000";
  urgent_first : assert always right_one = '1';
  in_turn : assert always too_often = '0';

end architecture formal;
