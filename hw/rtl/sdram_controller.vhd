-- SPDX-License-Identifier: MIT
-- A controller for a bank of SDRAM chips, 32 bits wide, as the thesis has it (section 6.1.2): four chips of 128 Mbit
-- make 64 MB; logic runs at `ratio_g` times the memory's clock. Each transfer opens a row, moves one word and lets the
-- chip precharge by itself, so that all transfers take the same time but for refreshes; doc/memory.md has the timing.
--
-- The logic's side is the one of block_ram: a transfer is done in the cycle in which req_i and ack_o are both set. On
-- the memory's side, everything changes in the cycle after tick_o, and the chips take it at the next tick.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity sdram_controller is
  generic (
    ratio_g    : positive := 2;     -- logic clocks for each memory clock
    chips_g    : positive := 4;     -- 1, 2 or 4
    power_up_g : natural  := 10000; -- memory clocks to wait before the first command: 100 us
    refresh_g  : positive := 1562;  -- memory clocks between refreshes: 64 ms / 4096 rows
    rcd_g      : positive := 2;     -- activate to read or write
    cas_g      : positive := 2;     -- read to data
    rc_g       : positive := 7;     -- activate to activate, and refresh to activate
    rp_g       : positive := 2;     -- precharge
    mrd_g      : positive := 2;     -- mode register to the next command
    lead_g     : natural  := 0      -- memory clocks to wait before each transfer: for slower paths to the chips
  );
  port (
    clk_i   : in    std_ulogic;
    rst_i   : in    std_ulogic;
    req_i   : in    std_ulogic;
    we_i    : in    std_ulogic;
    addr_i  : in    word_t;
    wdata_i : in    word_t;
    ack_o   : out   std_ulogic;
    rdata_o : out   word_t;
    -- To the chips.
    tick_o  : out   std_ulogic;
    cs_n_o  : out   std_ulogic_vector(chips_g - 1 downto 0);
    ras_n_o : out   std_ulogic;
    cas_n_o : out   std_ulogic;
    we_n_o  : out   std_ulogic;
    bank_o  : out   std_ulogic_vector(1 downto 0);
    a_o     : out   std_ulogic_vector(11 downto 0);
    dq_o    : out   word_t;
    dq_i    : in    word_t
  );
end entity sdram_controller;

architecture rtl of sdram_controller is

  type state_t is (power_up, first_refresh, second_refresh, mode, ready, lead, column, data, recover);

  -- ras, cas, we: all active low.
  subtype command_t is std_ulogic_vector(2 downto 0);
  constant command_nop_c       : command_t := "111";
  constant command_activate_c  : command_t := "011";
  constant command_read_c      : command_t := "101";
  constant command_write_c     : command_t := "100";
  constant command_precharge_c : command_t := "010";
  constant command_refresh_c   : command_t := "001";
  constant command_mode_c      : command_t := "000";

  constant wait_max_c : positive := 16383;

  signal state   : state_t;
  signal pause   : natural range 0 to wait_max_c;  -- memory clocks till the next state may act
  signal due     : natural range 0 to refresh_g;   -- memory clocks till the next refresh
  signal owed    : std_ulogic;                     -- it is due, and waits for a transfer's end
  signal divider : natural range 0 to ratio_g - 1;
  signal tick    : std_ulogic;
  signal command : command_t;
  signal ack     : std_ulogic;
  signal waiting : std_ulogic;

begin

  assert chips_g = 1 or chips_g = 2 or chips_g = 4
    report "sdram_controller: 1, 2 or 4 chips"
    severity failure;
  assert rc_g >= rcd_g + cas_g + 1
    report "sdram_controller: a row must stay open until its word has come"
    severity failure;

  tick    <= '1' when divider = ratio_g - 1 else '0';
  tick_o  <= tick;
  ack_o   <= ack;
  ras_n_o <= command(2);
  cas_n_o <= command(1);
  we_n_o  <= command(0);
  -- The cycle of the answer still shows the old request.
  waiting <= req_i and not ack;

  run : process (clk_i) is

    -- Issues a command at this tick; the next state acts `clocks` memory clocks after it.
    procedure issue (what : command_t; clocks : positive; and_then : state_t) is
    begin
      command <= what;
      pause   <= clocks - 1;
      state   <= and_then;
    end procedure issue;

    procedure select_chip is
    begin
      cs_n_o <= (others => '1');
      if chips_g = 1 then
        cs_n_o <= (others => '0');
      else
        cs_n_o(to_integer(unsigned(addr_i(25 downto 24))) mod chips_g) <= '0';
      end if;
      bank_o <= addr_i(11 downto 10);
    end procedure select_chip;

  begin
    if rising_edge(clk_i) then
      ack <= '0';
      if tick = '1' then
        divider <= 0;
      else
        divider <= divider + 1;
      end if;

      if tick = '1' then
        command <= command_nop_c;
        cs_n_o  <= (others => '1');
        -- Whatever a refresh waits for, the next one's time does not move: so many must come in 64 ms.
        if due = 0 then
          due  <= refresh_g - 1;
          owed <= '1';
        else
          due <= due - 1;
        end if;

        if pause /= 0 then
          pause <= pause - 1;
        else

          case state is

            when power_up =>
              cs_n_o  <= (others => '0');
              a_o     <= (10 => '1', others => '0');  -- all banks
              issue(command_precharge_c, rp_g, first_refresh);

            when first_refresh =>
              cs_n_o <= (others => '0');
              issue(command_refresh_c, rc_g, second_refresh);

            when second_refresh =>
              cs_n_o <= (others => '0');
              issue(command_refresh_c, rc_g, mode);

            -- One word a transfer, in order, data cas_g clocks after the read.
            when mode =>
              cs_n_o <= (others => '0');
              bank_o <= "00";
              a_o    <= "00000" & std_ulogic_vector(to_unsigned(cas_g, 3)) & "0000";
              due    <= refresh_g - 1;
              owed   <= '0';
              issue(command_mode_c, mrd_g, ready);

            -- Refreshes come first: a request waits for one at most.
            when ready =>
              if owed = '1' then
                cs_n_o <= (others => '0');
                owed   <= '0';
                issue(command_refresh_c, rc_g, ready);
              elsif waiting = '1' and lead_g /= 0 then
                pause <= lead_g - 1;
                state <= lead;
              elsif waiting = '1' then
                select_chip;
                a_o <= addr_i(23 downto 12);
                issue(command_activate_c, rcd_g, column);
              end if;

            when lead =>
              select_chip;
              a_o <= addr_i(23 downto 12);
              issue(command_activate_c, rcd_g, column);

            -- With bit 10 set the chip precharges when the word has moved. A write is done for us once it is issued.
            when column =>
              select_chip;
              a_o  <= "0100" & addr_i(9 downto 2);
              dq_o <= wdata_i;
              if we_i = '1' then
                ack <= '1';
                issue(command_write_c, rc_g - rcd_g, ready);
              else
                issue(command_read_c, cas_g + 1, data);
              end if;

            when data =>
              ack     <= '1';
              rdata_o <= dq_i;
              if rc_g - rcd_g - cas_g - 1 = 0 then
                state <= ready;
              else
                pause <= rc_g - rcd_g - cas_g - 1 - 1;
                state <= recover;
              end if;

            when others =>
              state <= ready;

          end case;

        end if;
      end if;

      if rst_i = '1' then
        state   <= power_up;
        pause   <= power_up_g;
        due     <= refresh_g;
        owed    <= '0';
        divider <= 0;
        command <= command_nop_c;
        cs_n_o  <= (others => '1');
        bank_o  <= "00";
        a_o     <= (others => '0');
        ack     <= '0';
      end if;
    end if;
  end process run;

end architecture rtl;
