-- SPDX-License-Identifier: MIT
-- vunit: run_all_in_same_sim
-- ram_interface and ram_priority: every transfer reaches the memory once and is answered to who asked; an index that
-- the processor waits for comes first; nobody waits for ever, though the processor never stops asking.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
  use ieee.math_real.all;
library vunit_lib;
  context vunit_lib.vunit_context;
library work;
  use work.coffer_hw.all;

entity tb_ram_interface is
  generic (
    runner_cfg : string
  );
end entity tb_ram_interface;

architecture bench of tb_ram_interface is

  constant turns_c : positive := 4;

  signal clk       : std_ulogic := '0';
  signal rst       : std_ulogic := '1';
  signal hold      : std_ulogic := '0';
  signal still     : std_ulogic;
  signal dependent : word_t     := (others => '0');
  signal cpu_req   : std_ulogic := '0';
  signal cpu_ack   : std_ulogic;
  signal req       : word_t     := (others => '0');
  signal we        : word_t     := (others => '1');
  signal addr      : words_t(4 to 11);
  signal ack       : word_t;
  signal mem_req   : std_ulogic;
  signal mem_addr  : word_t;
  signal mem_ack   : std_ulogic := '0';

begin

  clk <= not clk after 2500 ps;

  unit : entity work.ram_interface
    generic map (
      min_log2_g  => 4,
      heap_log2_g => 11,
      turns_g     => turns_c
    )
    port map (
      clk_i       => clk,
      rst_i       => rst,
      hold_i      => hold,
      still_o     => still,
      dependent_i => dependent,
      cpu_req_i   => cpu_req,
      cpu_we_i    => '1',
      cpu_addr_i  => x"00000100",
      cpu_wdata_i => x"00000000",
      cpu_ack_o   => cpu_ack,
      req_i       => req,
      we_i        => we,
      addr_i      => addr,
      wdata_i     => addr,
      ack_o       => ack,
      mem_req_o   => mem_req,
      mem_we_o    => open,
      mem_addr_o  => mem_addr,
      mem_wdata_o => open,
      mem_ack_i   => mem_ack
    );

  make_addresses : for k in addr'range generate
    addr(k) <= std_ulogic_vector(to_unsigned(k, 32));
  end generate make_addresses;

  -- A memory that answers after one to four cycles.
  memory : process (clk) is

    variable seed_1 : positive := 3;
    variable seed_2 : positive := 9;
    variable number : real;

  begin
    if rising_edge(clk) then
      uniform(seed_1, seed_2, number);
      mem_ack <= '1' when mem_req = '1' and mem_ack = '0' and number < 0.4 else '0';
    end if;
  end process memory;

  main : process is

    variable seed_1 : positive := 5;
    variable seed_2 : positive := 7;
    variable served : natural;
    variable waits  : integer_vector(0 to 31);
    variable acked  : natural;

    impure function random (limit : positive) return natural is
      variable number : real;
    begin
      uniform(seed_1, seed_2, number);
      return integer(floor(number * real(limit)));
    end function random;

  begin
    test_runner_setup(runner, runner_cfg);
    while test_suite loop
      rst <= '1';
      req <= (others => '0');
      dependent <= (others => '0');
      cpu_req <= '0';
      wait until rising_edge(clk);
      wait until rising_edge(clk);
      rst <= '0';
      if run("answers go to who asked, and nobody starves") then
        waits := (others => 0);
        served := 0;
        for round in 1 to 20000 loop
          wait until rising_edge(clk);
          wait for 1 ns;
          if mem_ack = '1' then
            acked := 0;
            for k in addr'range loop
              if ack(k) = '1' then
                acked := acked + 1;
                check_equal(mem_addr, addr(k), "the address of who is answered");
                check_equal(req(k), '1', "it has asked");
              end if;
            end loop;
            if cpu_ack = '1' then
              acked := acked + 1;
              check_equal(mem_addr, std_ulogic_vector'(x"00000100"), "the processor's address");
            end if;
            check_equal(acked, 1, "one is answered");
            -- How many transfers of others each has waited for.
            for k in addr'range loop
              if ack(k) = '1' then
                waits(k) := 0;
                served := served + 1;
              elsif req(k) = '1' then
                waits(k) := waits(k) + 1;
                check(waits(k) <= 2 * 8 * (turns_c + 1), "index " & integer'image(k) & " starves");
              end if;
            end loop;
          else
            check_equal(ack, std_ulogic_vector'(x"00000000"), "no answer without the memory's");
          end if;
          wait until falling_edge(clk);
          -- What was answered stops asking; others begin; the processor never stops.
          for k in addr'range loop
            if ack(k) = '1' then
              req(k) <= '0';
            elsif req(k) = '0' and random(6) = 0 then
              req(k) <= '1';
            end if;
          end loop;
          cpu_req <= not cpu_ack;
          if random(20) = 0 then
            dependent <= (others => '0');
            dependent(4 + random(8)) <= '1';
          end if;
        end loop;
        check(served > 500, "hardly anything was served");
      elsif run("what the processor waits for comes first") then
        served := 0;
        for round in 1 to 50 loop
          wait until falling_edge(clk);
          dependent <= (others => '0');
          dependent(5) <= '1';
          req <= x"00000fd0";
          wait until falling_edge(clk);
          req(5) <= '1';
          loop
            wait until rising_edge(clk) and mem_ack = '1';
            exit when ack(5) = '1';
            served := served + 1;
          end loop;
          check(served <= 1, "only what was under way may come before");
          served := 0;
          req <= (others => '0');
          wait until rising_edge(clk) and still = '1';
          wait until rising_edge(clk);
        end loop;
      elsif run("nothing begins while it is held") then
        hold <= '1';
        req <= x"00000ff0";
        wait until rising_edge(clk);
        wait until rising_edge(clk) and still = '1';
        for i in 1 to 50 loop
          wait until rising_edge(clk);
          check_equal(mem_req, '0');
        end loop;
        hold <= '0';
        wait until rising_edge(clk) and mem_req = '1' for 1 us;
        check_equal(mem_req, '1');
      end if;
    end loop;
    test_runner_cleanup(runner);
  end process main;

  test_runner_watchdog(runner, 10 ms);

end architecture bench;
