-- SPDX-License-Identifier: MIT
-- vunit: run_all_in_same_sim
-- free_buffer against a plain sequence: both ends add and take at random, in the same cycle too, whatever the flags
-- allow; counts, credits, both ends and the look-up must agree in every cycle.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
  use ieee.math_real.all;
library vunit_lib;
  context vunit_lib.vunit_context;
library work;
  use work.coffer_hw.all;

entity tb_free_buffer is
  generic (
    runner_cfg : string;
    depth_g    : positive := 8
  );
end entity tb_free_buffer;

architecture bench of tb_free_buffer is

  constant width_c : positive := 8;

  subtype value_t is std_ulogic_vector(width_c - 1 downto 0);

  signal clk        : std_ulogic := '0';
  signal rst        : std_ulogic := '1';
  signal push       : std_ulogic := '0';
  signal pop        : std_ulogic := '0';
  signal drain      : std_ulogic := '0';
  signal fill       : std_ulogic := '0';
  signal value      : value_t    := (others => '0');
  signal fill_value : value_t    := (others => '0');
  signal top        : value_t;
  signal bottom     : value_t;
  signal holds      : std_ulogic;
  signal has        : std_ulogic;
  signal room       : std_ulogic;
  signal drainable  : std_ulogic;
  signal reserve    : std_ulogic_vector(1 downto 0) := "00";
  signal reservable : std_ulogic_vector(1 downto 0);
  signal count      : natural range 0 to depth_g;
  signal reserved   : natural range 0 to 2;

begin

  clk <= not clk after 2500 ps;

  unit : entity work.free_buffer
    generic map (
      depth_g => depth_g,
      width_g => width_c
    )
    port map (
      clk_i        => clk,
      rst_i        => rst,
      push_i       => push,
      pop_i        => pop,
      value_i      => value,
      top_o        => top,
      holds_o      => holds,
      has_o        => has,
      room_o       => room,
      drain_i      => drain,
      drainable_o  => drainable,
      bottom_o     => bottom,
      reserve_i    => reserve,
      reservable_o => reservable,
      fill_i       => fill,
      fill_value_i => fill_value,
      count_o      => count,
      reserved_o   => reserved
    );

  main : process is

    type sequence_t is array (0 to 2 * depth_g) of value_t;

    variable seed_1 : positive := 3;
    variable seed_2 : positive := 4;

    impure function random (limit : positive) return natural is
      variable number : real;
    begin
      uniform(seed_1, seed_2, number);
      return integer(floor(number * real(limit)));
    end function random;

    -- Oldest first.
    variable model     : sequence_t;
    variable length    : natural := 0;
    variable kept      : natural := 0;
    variable is_there  : boolean;
    variable full_seen : natural := 0;
    variable both_seen : natural := 0;

    procedure compare is
    begin
      check_equal(count, length, "count");
      check_equal(reserved, kept, "reserved");
      check(length + kept <= depth_g, "credits");
      check_equal(has, length > 0, "has");
      check_equal(room, length + kept < depth_g, "room");
      if length > 0 then
        check_equal(top, model(length - 1), "top");
        check_equal(bottom, model(0), "bottom");
      end if;
      is_there := false;
      for i in 0 to length - 1 loop
        is_there := is_there or model(i) = value;
      end loop;
      check_equal(holds, is_there, "holds");
    end procedure compare;

  begin
    test_runner_setup(runner, runner_cfg);
    wait until rising_edge(clk);
    wait until rising_edge(clk);
    rst <= '0';
    while test_suite loop
      if run("both ends at random") then
        for round in 1 to 5000 loop
          wait until falling_edge(clk);
          push <= '0';
          pop <= '0';
          drain <= '0';
          fill <= '0';
          reserve <= "00";
          value <= std_ulogic_vector(to_unsigned(random(30), width_c));
          fill_value <= std_ulogic_vector(to_unsigned(random(30), width_c));
          wait for 100 ps;
          compare;
          -- The processor first, then the controller, which sees what the processor does.
          case random(3) is
            when 0 => push <= room;
            when 1 => pop <= has;
            when others => null;
          end case;
          wait for 100 ps;
          case random(4) is
            when 0 => drain <= drainable;
            when 1 => fill <= '1' when kept > 0 else '0';
            when 2 => reserve(random(2)) <= '1' when kept = 0 else '0';
            when others => null;
          end case;
          wait for 100 ps;
          if (reserve and not reservable) /= "00" then
            reserve <= "00";
          end if;
          wait for 100 ps;
          if (push or pop) = '1' and (drain or fill) = '1' then
            both_seen := both_seen + 1;
          end if;
          wait until rising_edge(clk);
          if fill = '1' then
            model(1 to length) := model(0 to length - 1);
            model(0) := fill_value;
            length := length + 1;
            kept := kept - 1;
          elsif drain = '1' then
            model(0 to length - 2) := model(1 to length - 1);
            length := length - 1;
          end if;
          if push = '1' then
            model(length) := value;
            length := length + 1;
          elsif pop = '1' then
            length := length - 1;
          end if;
          kept := kept + 1 when reserve(0) = '1' else kept + 2 when reserve(1) = '1' else kept;
          if length = depth_g then
            full_seen := full_seen + 1;
          end if;
        end loop;
        check(full_seen > 10 and both_seen > 100, "the bench has not been everywhere");
      end if;
    end loop;
    test_runner_cleanup(runner);
  end process main;

  test_runner_watchdog(runner, 1 ms);

end architecture bench;
