-- SPDX-License-Identifier: MIT
-- RAM Priority (thesis, section 5.4.2): which index gets the next transfer. One that the processor waits for comes
-- first; else the members of a snapshot of all requests, the largest size first, and then a new snapshot.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity ram_priority is
  port (
    clk_i       : in    std_ulogic;
    rst_i       : in    std_ulogic;
    requests_i  : in    word_t;
    dependent_i : in    word_t;      -- the indices that the processor waits for
    fair_i      : in    std_ulogic;  -- the snapshot's turn, whoever waits
    granted_i   : in    std_ulogic;  -- the selected one has been taken
    selected_o  : out   word_t;      -- one-hot; zeros if there is no request
    urgent_o    : out   std_ulogic   -- it is one that the processor waits for
  );
end entity ram_priority;

architecture rtl of ram_priority is

  signal mask     : word_t;
  signal masked   : word_t;
  signal urgent   : word_t;
  signal snapshot : word_t;
  signal selected : word_t;

begin

  masked   <= requests_i and mask;
  urgent   <= (requests_i and dependent_i) when fair_i = '0' else (others => '0');
  -- Nothing of the snapshot is left: the present requests are the next one.
  snapshot <= masked when or_all(masked) = '1' else requests_i;

  selected   <= highest(urgent) when or_all(urgent) = '1' else highest(snapshot);
  selected_o <= selected;
  urgent_o   <= or_all(urgent);

  remember : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      if granted_i = '1' then
        mask <= snapshot and not selected;
      end if;
      if rst_i = '1' then
        mask <= (others => '1');
      end if;
    end if;
  end process remember;

end architecture rtl;
