-- SPDX-License-Identifier: MIT
-- What bounds a controller's sequences, from any idle state whatever: after limit_g cycles at most it is idle again,
-- and has made no more than seven transfers.
library ieee;
  use ieee.std_logic_1164.all;

entity sequence_bounds is
  generic (
    limit_g : positive
  );
  port (
    clk_i  : in    std_ulogic;
    idle_i : in    std_ulogic;
    req_i  : in    std_ulogic  -- memory answers at once
  );
end entity sequence_bounds;

architecture formal of sequence_bounds is

  signal begun : std_ulogic := '0';           -- it has been idle
  signal long  : natural range 0 to 63 := 0;  -- cycles since
  signal moves : natural range 0 to 63 := 0;  -- transfers since then

begin

  measure : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      if idle_i = '1' then
        begun <= begun or not req_i;  -- idle and asking for nothing, as it always is then
        long  <= 0;
        moves <= 0;
      elsif begun = '1' then
        if long /= 63 then
          long <= long + 1;
        end if;
        if req_i = '1' and moves /= 63 then
          moves <= moves + 1;
        end if;
      end if;
    end if;
  end process measure;

  default clock is rising_edge(clk_i);

  ends : assert always long < limit_g;
  seven : assert always moves <= 7;

end architecture formal;
