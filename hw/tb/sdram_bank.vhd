-- SPDX-License-Identifier: MIT
-- The thesis's memory (section 6.1.2): the controller and four chips, 64 MB.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity sdram_bank is
  generic (
    power_up_g : natural  := 20;  -- the chips' 100 us would only make every bench wait
    lead_g     : natural  := 0;
    -- The controller's idea of the chips' timing; faults are seeded here.
    rcd_g      : positive := 2;
    rc_g       : positive := 7;
    refresh_g  : positive := 1562
  );
  port (
    clk_i   : in    std_ulogic;
    rst_i   : in    std_ulogic;
    req_i   : in    std_ulogic;
    we_i    : in    std_ulogic;
    addr_i  : in    word_t;
    wdata_i : in    word_t;
    ack_o   : out   std_ulogic;
    rdata_o : out   word_t
  );
end entity sdram_bank;

architecture model of sdram_bank is

  signal tick       : std_ulogic;
  signal cs_n       : std_ulogic_vector(3 downto 0);
  signal ras_n      : std_ulogic;
  signal cas_n      : std_ulogic;
  signal we_n       : std_ulogic;
  signal bank       : std_ulogic_vector(1 downto 0);
  signal a          : std_ulogic_vector(11 downto 0);
  signal to_chips   : word_t;
  signal from_chips : words_t(0 to 3);
  signal data       : word_t;
  signal answering  : natural range 0 to 3 := 0;

begin

  controller : entity work.sdram_controller
    generic map (
      power_up_g => power_up_g,
      lead_g     => lead_g,
      rcd_g      => rcd_g,
      rc_g       => rc_g,
      refresh_g  => refresh_g
    )
    port map (
      clk_i   => clk_i,
      rst_i   => rst_i,
      req_i   => req_i,
      we_i    => we_i,
      addr_i  => addr_i,
      wdata_i => wdata_i,
      ack_o   => ack_o,
      rdata_o => rdata_o,
      tick_o  => tick,
      cs_n_o  => cs_n,
      ras_n_o => ras_n,
      cas_n_o => cas_n,
      we_n_o  => we_n,
      bank_o  => bank,
      a_o     => a,
      dq_o    => to_chips,
      dq_i    => data
    );

  -- The chips share the bus; the one that was selected last drives it.
  data <= from_chips(answering);

  select_answer : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      for i in cs_n'range loop
        if cs_n = not std_ulogic_vector(to_unsigned(2 ** i, 4)) then
          answering <= i;
        end if;
      end loop;
    end if;
  end process select_answer;

  make_chips : for i in 0 to 3 generate

    chip : entity work.sdram_chip
      generic map (
        power_up_g => power_up_g
      )
      port map (
        clk_i   => clk_i,
        tick_i  => tick,
        cs_n_i  => cs_n(i),
        ras_n_i => ras_n,
        cas_n_i => cas_n,
        we_n_i  => we_n,
        bank_i  => bank,
        a_i     => a,
        dq_i    => to_chips,
        dq_o    => from_chips(i)
      );

  end generate make_chips;

end architecture model;
