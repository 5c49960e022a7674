-- SPDX-License-Identifier: MIT
-- A program beside the simulation uses the registers: lines of text, through two pipes. `w OFFSET VALUE` writes,
-- `r OFFSET` reads, `s ADDRESS VALUE` and `l ADDRESS` store and load a word of memory, `d 0` and `d 1` let memory serve
-- the unit and refuse it; numbers have eight hexadecimal digits. Each is answered with `ok VALUE`, or `err` if the bus
-- has said so. hw/test/test_driver.py is at the other end.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
  use std.textio.all;
  use std.env.all;
library work;
  use work.coffer_hw.all;

entity tb_driver is
  generic (
    requests_g  : string;
    answers_g   : string;
    axi_g       : boolean  := true;
    hbs_g       : boolean  := false;
    posted_g    : boolean  := false;
    heap_log2_g : natural  := 12;
    patience_g  : positive := 100000  -- the most cycles that an access may take
  );
end entity tb_driver;

architecture bench of tb_driver is

  constant window_c : word_t   := x"20000000";
  constant spare_c  : positive := 4096;  -- for what alignment costs

  signal clk        : std_ulogic := '0';
  signal rst        : std_ulogic := '1';
  signal do_write   : std_ulogic := '0';
  signal do_read    : std_ulogic := '0';
  signal address    : std_ulogic_vector(7 downto 0);
  signal value, got : word_t;
  signal deny       : std_ulogic := '0';
  signal write_done : std_ulogic;
  signal write_err  : std_ulogic;
  signal read_done  : std_ulogic;
  signal read_err   : std_ulogic;
  signal look       : std_ulogic := '0';
  signal look_we    : std_ulogic := '0';
  signal place      : word_t;
  signal looked     : word_t;

begin

  clk <= not clk after 5 ns;

  harness : entity work.bus_harness
    generic map (
      axi_g       => axi_g,
      hbs_g       => hbs_g,
      posted_g    => posted_g,
      heap_log2_g => heap_log2_g
    )
    port map (
      clk_i        => clk,
      rst_i        => rst,
      write_i      => do_write,
      read_i       => do_read,
      addr_i       => address,
      wdata_i      => value,
      write_done_o => write_done,
      write_err_o  => write_err,
      read_done_o  => read_done,
      read_err_o   => read_err,
      rdata_o      => got,
      deny_i       => deny,
      window_i     => window_c,
      bytes_i      => 2 ** heap_log2_g + spare_c,
      look_i       => look,
      look_we_i    => look_we,
      look_addr_i  => place,
      look_wdata_i => value,
      look_rdata_o => looked
    );

  serve : process is

    file requests, answers : text;
    variable line_l, out_l : line;
    variable kind          : character;
    variable offset        : word_t;
    variable data          : word_t;
    variable cycles        : natural;
    variable good          : boolean;

    procedure fail (message : string) is
    begin
      report "tb_driver: " & message
        severity failure;
    end procedure fail;

    procedure access_register (writes : boolean) is
    begin
      address <= offset(7 downto 0);
      value <= data;
      do_write <= '1' when writes else '0';
      do_read <= '0' when writes else '1';
      wait until rising_edge(clk);
      do_write <= '0';
      do_read <= '0';
      cycles := 0;
      loop
        wait until rising_edge(clk);
        exit when write_done = '1' or read_done = '1';
        cycles := cycles + 1;
        if cycles > patience_g then
          fail("watchdog: the bus does not answer");
        end if;
      end loop;
      if (writes and write_err = '1') or (not writes and read_err = '1') then
        write(out_l, string'("err"));
      else
        write(out_l, string'("ok "));
        if not writes then
          data := got;
        end if;
        hwrite(out_l, data);
      end if;
    end procedure access_register;

    procedure access_memory (writes : boolean) is
    begin
      place <= offset;
      value <= data;
      look_we <= '1' when writes else '0';
      look <= '1';
      wait until rising_edge(clk);
      look <= '0';
      wait until rising_edge(clk);
      wait until rising_edge(clk);
      write(out_l, string'("ok "));
      if not writes then
        data := looked;
      end if;
      hwrite(out_l, data);
    end procedure access_memory;

    procedure read_data is
    begin
      hread(line_l, data, good);
      if not good then
        fail("a write of nothing");
      end if;
    end procedure read_data;

  begin
    file_open(requests, requests_g, read_mode);
    file_open(answers, answers_g, write_mode);
    for i in 1 to 4 loop
      wait until rising_edge(clk);
    end loop;
    rst <= '0';
    wait until rising_edge(clk);
    while not endfile(requests) loop
      readline(requests, line_l);
      read(line_l, kind, good);
      if good then
        hread(line_l, offset, good);
      end if;
      if not good then
        fail("a line that is no request");
      end if;

      case kind is

        when 'w' =>
          read_data;
          access_register(true);

        when 'r' =>
          access_register(false);

        when 's' =>
          read_data;
          access_memory(true);

        when 'l' =>
          access_memory(false);

        when 'd' =>
          deny <= offset(0);
          write(out_l, string'("ok 00000000"));

        when others =>
          fail("no such request");

      end case;

      writeline(answers, out_l);
      flush(answers);
    end loop;
    finish(0);
  end process serve;

end architecture bench;
