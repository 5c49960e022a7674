-- SPDX-License-Identifier: MIT
-- fast_find and enhanced_fast_find against a search index by index: every wanted size, random lists.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
  use ieee.math_real.all;
library vunit_lib;
  context vunit_lib.vunit_context;
library work;
  use work.coffer_hw.all;

entity tb_fast_find is
  generic (
    runner_cfg : string
  );
end entity tb_fast_find;

architecture bench of tb_fast_find is

  signal size  : word_t := (others => '0');
  signal lists : word_t := (others => '0');
  signal index : word_t;
  signal found : std_ulogic;
  signal top   : word_t;
  signal parts : word_t;
  signal cuts  : std_ulogic;

begin

  unit : entity work.fast_find
    port map (
      size_i  => size,
      lists_i => lists,
      index_o => index,
      found_o => found
    );

  enhanced : entity work.enhanced_fast_find
    port map (
      size_i      => size,
      available_i => lists,
      top_o       => top,
      parts_o     => parts,
      found_o     => cuts
    );

  main : process is

    variable seed_1   : positive := 1;
    variable seed_2   : positive := 2;
    variable number   : real;
    variable thin     : real;
    variable expected : word_t;

  begin
    test_runner_setup(runner, runner_cfg);
    for round in 1 to 400 loop
      uniform(seed_1, seed_2, thin);
      for i in lists'range loop
        uniform(seed_1, seed_2, number);
        lists(i) <= '1' when number < thin * thin else '0';
      end loop;
      for wanted in 0 to 31 loop
        size <= (others => '0');
        size(wanted) <= '1';
        wait for 1 ns;
        expected := (others => '0');
        for i in 31 downto wanted loop
          if lists(i) = '1' then
            expected := (others => '0');
            expected(i) := '1';
          end if;
        end loop;
        check_equal(index, expected);
        check_equal(found, or_all(expected));
        check_equal(top, expected);
        check_equal(cuts, or_all(expected));
        if cuts = '1' then
          check_equal(parts, std_ulogic_vector(unsigned(expected) - unsigned(size)));
        end if;
      end loop;
    end loop;
    test_runner_cleanup(runner);
  end process main;

  test_runner_watchdog(runner, 1 ms);

end architecture bench;
