-- SPDX-License-Identifier: MIT
-- vunit: run_all_in_same_sim
-- The functions of coffer_hw against plain arithmetic.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library vunit_lib;
  context vunit_lib.vunit_context;
library work;
  use work.coffer_hw.all;

entity tb_coffer_hw is
  generic (
    runner_cfg : string
  );
end entity tb_coffer_hw;

architecture bench of tb_coffer_hw is

begin

  main : process is

    function slow_block_size (bytes : natural) return word_t is
      variable result : natural := 16;
    begin
      while result < bytes + 4 loop
        result := result * 2;
      end loop;
      return std_ulogic_vector(to_unsigned(result, 32));
    end function slow_block_size;

    variable vector : std_ulogic_vector(7 downto 0);
    variable count  : natural;
    variable first  : integer;
    variable last   : integer;

  begin
    test_runner_setup(runner, runner_cfg);
    while test_suite loop
      if run("block_size rounds requests as coffer-rt does") then
        for bytes in 0 to 5000 loop
          check_equal(block_size(std_ulogic_vector(to_unsigned(bytes, 32)), 4), slow_block_size(bytes));
        end loop;
        for power in 13 to 29 loop
          for offset in -6 to 6 loop
            check_equal(block_size(std_ulogic_vector(to_unsigned(2 ** power + offset, 32)), 4),
                        slow_block_size(2 ** power + offset));
          end loop;
        end loop;
        check_equal(block_size(x"7ffffffc", 4), std_ulogic_vector'(x"80000000"));
      elsif run("block_size refuses what no block can hold") then
        check_equal(block_size(x"7ffffffd", 4), std_ulogic_vector'(x"00000000"));
        check_equal(block_size(x"fffffffb", 4), std_ulogic_vector'(x"00000000"));
        check_equal(block_size(x"fffffffc", 4), std_ulogic_vector'(x"00000000"));
        check_equal(block_size(x"ffffffff", 4), std_ulogic_vector'(x"00000000"));
      elsif run("bits are found") then
        for value in 0 to 255 loop
          vector := std_ulogic_vector(to_unsigned(value, 8));
          count := 0;
          first := -1;
          last := -1;
          for i in 0 to 7 loop
            if vector(i) = '1' then
              count := count + 1;
              last := i;
              first := i when first < 0 else first;
            end if;
          end loop;
          check_equal(is_one_hot(vector), count = 1);
          check_equal(or_all(vector) = '1', count > 0);
          if count > 0 then
            check_equal(lowest(vector), std_ulogic_vector(to_unsigned(2 ** first, 8)));
            check_equal(highest(vector), std_ulogic_vector(to_unsigned(2 ** last, 8)));
          end if;
          if count = 1 then
            check_equal(bit_number(vector), first);
          end if;
        end loop;
      end if;
    end loop;
    test_runner_cleanup(runner);
  end process main;

  test_runner_watchdog(runner, 1 ms);

end architecture bench;
