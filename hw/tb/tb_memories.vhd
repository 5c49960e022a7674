-- SPDX-License-Identifier: MIT
-- block_ram, the SDRAM bank and the benches' plain memory keep what is written, in whatever order it is read, and
-- answer in the time that doc/memory.md gives.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
  use ieee.math_real.all;
library vunit_lib;
  context vunit_lib.vunit_context;
library work;
  use work.coffer_hw.all;

entity tb_memories is
  generic (
    runner_cfg : string;
    rcd_g      : positive := 2;
    rc_g       : positive := 7;
    refresh_g  : positive := 1562
  );
end entity tb_memories;

architecture bench of tb_memories is

  type which_t is (block_ram, sdram, slow_sdram, plain);

  type flags_t is array (which_t) of std_ulogic;

  type data_t is array (which_t) of word_t;

  signal clk    : std_ulogic := '0';
  signal rst    : std_ulogic := '1';
  signal chosen : which_t    := block_ram;
  signal req    : std_ulogic := '0';
  signal reqs   : flags_t;
  signal we     : std_ulogic := '0';
  signal addr   : word_t     := (others => '0');
  signal wdata  : word_t     := (others => '0');
  signal acks   : flags_t;
  signal rdatas : data_t;

begin

  clk <= not clk after 2500 ps;

  spread : for w in which_t generate
    reqs(w) <= req when chosen = w else '0';
  end generate spread;

  unit_block_ram : entity work.block_ram
    port map (
      clk_i   => clk,
      rst_i   => rst,
      req_i   => reqs(block_ram),
      we_i    => we,
      addr_i  => addr,
      wdata_i => wdata,
      ack_o   => acks(block_ram),
      rdata_o => rdatas(block_ram)
    );

  unit_sdram : entity work.sdram_bank
    generic map (
      rcd_g     => rcd_g,
      rc_g      => rc_g,
      refresh_g => refresh_g
    )
    port map (
      clk_i   => clk,
      rst_i   => rst,
      req_i   => reqs(sdram),
      we_i    => we,
      addr_i  => addr,
      wdata_i => wdata,
      ack_o   => acks(sdram),
      rdata_o => rdatas(sdram)
    );

  unit_slow_sdram : entity work.sdram_bank
    generic map (
      lead_g => 10
    )
    port map (
      clk_i   => clk,
      rst_i   => rst,
      req_i   => reqs(slow_sdram),
      we_i    => we,
      addr_i  => addr,
      wdata_i => wdata,
      ack_o   => acks(slow_sdram),
      rdata_o => rdatas(slow_sdram)
    );

  unit_plain : entity work.plain_memory
    generic map (
      read_cycles_g  => 3,
      write_cycles_g => 2
    )
    port map (
      clk_i   => clk,
      req_i   => reqs(plain),
      we_i    => we,
      addr_i  => addr,
      wdata_i => wdata,
      ack_o   => acks(plain),
      rdata_o => rdatas(plain)
    );

  main : process is

    type words_written_t is array (natural range <>) of word_t;

    variable seed_1 : positive := 5;
    variable seed_2 : positive := 6;

    impure function random (limit : positive) return natural is
      variable number : real;
    begin
      uniform(seed_1, seed_2, number);
      return integer(floor(number * real(limit)));
    end function random;

    variable cycles : natural;

    procedure transfer (write : std_ulogic; address : natural; data : word_t) is
    begin
      req <= '1';
      we <= write;
      addr <= std_ulogic_vector(to_unsigned(address, 32));
      wdata <= data;
      cycles := 0;
      loop
        wait until rising_edge(clk);
        cycles := cycles + 1;
        exit when acks(chosen) = '1';
      end loop;
      req <= '0';
    end procedure transfer;

    -- Random writes and reads over `words` words that lie `stride` bytes apart.
    procedure exercise (words, stride : positive; least, most : positive) is
      variable written : words_written_t(0 to words - 1);
      variable place   : natural;
      variable shortest : natural := natural'high;
      variable longest  : natural := 0;
      variable next_bit : natural;
    begin
      wait until rising_edge(clk);
      for i in written'range loop
        written(i) := std_ulogic_vector(to_unsigned(random(2 ** 30), 32));
        transfer('1', i * stride, written(i));
      end loop;
      for i in 1 to 1000 loop
        place := random(words);
        next_bit := random(4);
        if next_bit = 0 then
          written(place) := std_ulogic_vector(to_unsigned(random(2 ** 30), 32));
          transfer('1', place * stride, written(place));
        else
          transfer('0', place * stride, x"00000000");
          check_equal(rdatas(chosen), written(place));
        end if;
        shortest := minimum(shortest, cycles);
        longest := maximum(longest, cycles);
        if random(3) = 0 then
          for pause in 0 to random(30) loop
            wait until rising_edge(clk);
          end loop;
        end if;
      end loop;
      check(shortest >= least and longest <= most,
            "answers came after " & integer'image(shortest) & " to " & integer'image(longest) & " cycles");
    end procedure exercise;

  begin
    test_runner_setup(runner, runner_cfg);
    for i in 1 to 4 loop
      wait until rising_edge(clk);
    end loop;
    rst <= '0';
    while test_suite loop
      if run("block_ram") then
        chosen <= block_ram;
        exercise(1024, 4, 2, 2);
      elsif run("sdram") then
        -- A write 4 clocks of memory at best, a read 6; at worst all that a transfer before it and a refresh take.
        chosen <= sdram;
        exercise(200, 16#1004#, 5, 45);
      elsif run("sdram with many chips and rows") then
        chosen <= sdram;
        exercise(300, 16#28408#, 5, 45);
      elsif run("sdram behind a slow path") then
        chosen <= slow_sdram;
        exercise(200, 16#1004#, 25, 65);
      elsif run("plain") then
        chosen <= plain;
        exercise(200, 16#1004#, 3, 4);
      end if;
    end loop;
    test_runner_cleanup(runner);
  end process main;

  test_runner_watchdog(runner, 10 ms);

end architecture bench;
