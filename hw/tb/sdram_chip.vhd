-- SPDX-License-Identifier: MIT
-- A model of one SDRAM chip of 128 Mbit, 32 bits wide, that fails when its timing is not kept. Times are in clocks of
-- the memory, 10 ns each, for the -7 grade at 100 MHz: doc/memory.md. Data go in and out on two buses.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;
  use work.sparse_memory.all;

entity sdram_chip is
  generic (
    rcd_g      : positive := 2;
    rc_g       : positive := 7;
    rp_g       : positive := 2;
    wr_g       : positive := 2;
    mrd_g      : positive := 2;
    power_up_g : natural  := 10000;
    refresh_g  : positive := 1563;  -- on average no more than this between refreshes
    late_g     : positive := 9      -- and so many of these at most in between at any time
  );
  port (
    clk_i   : in    std_ulogic;
    tick_i  : in    std_ulogic;
    cs_n_i  : in    std_ulogic;
    ras_n_i : in    std_ulogic;
    cas_n_i : in    std_ulogic;
    we_n_i  : in    std_ulogic;
    bank_i  : in    std_ulogic_vector(1 downto 0);
    a_i     : in    std_ulogic_vector(11 downto 0);
    dq_i    : in    word_t;
    dq_o    : out   word_t
  );
end entity sdram_chip;

architecture model of sdram_chip is

begin

  obey : process (clk_i) is

    type bank_state_t is record
      is_open   : boolean;
      row       : natural;
      activated : integer;  -- when
      free_from : integer;  -- an activate may come from then on
    end record bank_state_t;

    type banks_t is array (0 to 3) of bank_state_t;

    type pipe_t is array (0 to 3) of word_t;

    variable memory     : memory_t;
    variable banks      : banks_t := (others => (false, 0, -100, 0));
    variable pipe       : pipe_t := (others => (others => 'X'));  -- what comes out 1, 2, 3 clocks from now
    variable clocks      : natural := 0;
    variable cas        : natural := 0;  -- 0: no mode set
    variable refreshes  : natural := 0;
    variable set_up_at  : natural := 0;
    variable busy_until : natural := power_up_g;
    variable refreshed  : natural := 0;
    variable bank       : natural range 0 to 3;
    variable address    : natural;
    variable command    : std_ulogic_vector(2 downto 0);

    procedure check (condition : boolean; message : string) is
    begin
      assert condition
        report "sdram_chip: " & message
        severity failure;
    end procedure check;

  begin
    if rising_edge(clk_i) and tick_i = '1' then
      clocks := clocks + 1;
      dq_o <= pipe(0);
      pipe(0 to 2) := pipe(1 to 3);
      pipe(3) := (others => 'X');
      command := ras_n_i & cas_n_i & we_n_i;
      if cs_n_i = '0' and command /= "111" then
        check(clocks >= busy_until, "a command while the chip is busy (tRFC, tMRD or power-up)");
        bank := to_integer(unsigned(bank_i));

        case command is

          when "011" =>  -- activate
            check(cas /= 0, "no mode has been set");
            check(not banks(bank).is_open, "activate: the bank has a row open");
            check(clocks >= banks(bank).free_from, "activate: tRC or tRP is not over");
            banks(bank) := (true, to_integer(unsigned(a_i)), clocks, clocks + rc_g);

          when "101" | "100" =>  -- read, write
            check(banks(bank).is_open, "no row is open");
            check(clocks >= banks(bank).activated + rcd_g, "tRCD is not over");
            check(a_i(10) = '1', "only with automatic precharge, here");
            address := ((banks(bank).row * 4 + bank) * 256 + to_integer(unsigned(a_i(7 downto 0)))) * 4;
            if command = "100" then
              memory.write_word(address, dq_i);
              banks(bank).free_from := maximum(banks(bank).free_from, clocks + wr_g + rp_g);
            else
              pipe(cas - 2) := memory.read_word(address);
              banks(bank).free_from := maximum(banks(bank).free_from, clocks + 1 + rp_g);
            end if;
            banks(bank).is_open := false;

          when "010" =>  -- precharge
            check(a_i(10) = '1', "precharge: only all banks, here");
            for i in banks'range loop
              banks(i).is_open := false;
              banks(i).free_from := maximum(banks(i).free_from, clocks + rp_g);
            end loop;

          when "001" =>  -- refresh
            for i in banks'range loop
              check(not banks(i).is_open, "refresh: a row is open");
              check(clocks >= banks(i).free_from, "refresh: tRC or tRP is not over");
            end loop;
            busy_until := clocks + rc_g;
            refreshes := refreshes + 1;
            refreshed := clocks;

          when "000" =>  -- mode
            check(refreshes >= 2, "two refreshes must come before the mode");
            check(a_i(3 downto 0) = "0000", "one word a transfer, here");
            cas := to_integer(unsigned(a_i(6 downto 4)));
            check(cas = 2 or cas = 3, "no such CAS latency");
            busy_until := clocks + mrd_g;
            set_up_at := clocks;
            refreshes := 0;

          when others =>
            check(false, "no such command");

        end case;

      end if;
      if cas /= 0 then
        check(clocks - refreshed <= late_g * refresh_g, "a refresh is missing");
        check((clocks - set_up_at) / refresh_g <= refreshes + late_g - 1, "too few refreshes");
      end if;
    end if;
  end process obey;

end architecture model;
