-- A memory on AXI4-Lite for benches, which keeps its master waiting at random on every channel. It fails if the master
-- takes back or changes what it has offered, leaves its window, or writes parts of words. While deny_i is one, every
-- transfer ends with an error and does nothing.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
  use ieee.math_real.all;
library work;
  use work.coffer_hw.all;
  use work.sparse_memory.all;

entity axi_memory is
  port (
    clk_i         : in    std_ulogic;
    deny_i        : in    std_ulogic;
    base_i        : in    word_t;   -- the window that the master may use
    bytes_i       : in    natural;
    axi_awvalid_i : in    std_ulogic;
    axi_awready_o : out   std_ulogic := '0';
    axi_awaddr_i  : in    word_t;
    axi_awprot_i  : in    std_ulogic_vector(2 downto 0);
    axi_wvalid_i  : in    std_ulogic;
    axi_wready_o  : out   std_ulogic := '0';
    axi_wdata_i   : in    word_t;
    axi_wstrb_i   : in    std_ulogic_vector(3 downto 0);
    axi_bvalid_o  : out   std_ulogic := '0';
    axi_bready_i  : in    std_ulogic;
    axi_bresp_o   : out   std_ulogic_vector(1 downto 0);
    axi_arvalid_i : in    std_ulogic;
    axi_arready_o : out   std_ulogic := '0';
    axi_araddr_i  : in    word_t;
    axi_arprot_i  : in    std_ulogic_vector(2 downto 0);
    axi_rvalid_o  : out   std_ulogic := '0';
    axi_rready_i  : in    std_ulogic;
    axi_rdata_o   : out   word_t;
    axi_rresp_o   : out   std_ulogic_vector(1 downto 0)
  );
end entity axi_memory;

architecture model of axi_memory is

  -- Was it offered and not taken, and is it still there?
  procedure check_kept (name : string; offered : boolean; valid : std_ulogic; old, new_value : std_ulogic_vector) is
  begin
    assert not offered or (valid = '1' and old = new_value)
      report "axi_memory: " & name & " was taken back or changed before it was taken"
      severity failure;
  end procedure check_kept;

begin

  serve : process is

    variable memory          : memory_t;
    variable has_aw, has_w   : boolean := false;
    variable has_ar          : boolean := false;
    variable aw, w, ar       : word_t;
    variable old_aw, old_w   : boolean := false;
    variable old_ar          : boolean := false;
    variable last_aw, last_w : word_t;
    variable last_ar         : word_t;
    variable seed_1          : positive := 5;
    variable seed_2          : positive := 6;

    impure function chance return boolean is
      variable number : real;
    begin
      uniform(seed_1, seed_2, number);
      return number < 0.5;
    end function chance;

    impure function place (address : word_t) return natural is
    begin
      assert unsigned(address) >= unsigned(base_i) and unsigned(address) - unsigned(base_i) < bytes_i
        report "axi_memory: outside of the window: " & to_hstring(address)
        severity failure;
      assert address(1 downto 0) = "00"
        report "axi_memory: not the address of a word: " & to_hstring(address)
        severity failure;
      return to_integer(unsigned(address) - unsigned(base_i));
    end function place;

  begin
    wait until rising_edge(clk_i);
    check_kept("a write's address", old_aw, axi_awvalid_i, last_aw, axi_awaddr_i);
    check_kept("a write's data", old_w, axi_wvalid_i, last_w, axi_wdata_i);
    check_kept("a read's address", old_ar, axi_arvalid_i, last_ar, axi_araddr_i);

    if axi_awvalid_i = '1' and axi_awready_o = '1' then
      has_aw := true;
      aw := axi_awaddr_i;
      assert axi_awprot_i = "000"
        report "axi_memory: protection"
        severity failure;
    end if;
    if axi_wvalid_i = '1' and axi_wready_o = '1' then
      has_w := true;
      w := axi_wdata_i;
      assert axi_wstrb_i = "1111"
        report "axi_memory: a part of a word is written"
        severity failure;
    end if;
    if axi_arvalid_i = '1' and axi_arready_o = '1' then
      has_ar := true;
      ar := axi_araddr_i;
      assert axi_arprot_i = "000"
        report "axi_memory: protection"
        severity failure;
    end if;
    assert not ((has_aw or has_w) and has_ar)
      report "axi_memory: two transfers at once"
      severity failure;

    if axi_bvalid_o = '1' and axi_bready_i = '1' then
      axi_bvalid_o <= '0';
    end if;
    if axi_rvalid_o = '1' and axi_rready_i = '1' then
      axi_rvalid_o <= '0';
      axi_rdata_o <= (others => 'X');
    end if;
    if has_aw and has_w and axi_bvalid_o = '0' and chance then
      axi_bvalid_o <= '1';
      axi_bresp_o <= deny_i & '0';
      if deny_i = '0' then
        memory.write_word(place(aw), w);
      end if;
      has_aw := false;
      has_w := false;
    end if;
    if has_ar and axi_rvalid_o = '0' and chance then
      axi_rvalid_o <= '1';
      axi_rresp_o <= deny_i & deny_i;
      axi_rdata_o <= memory.read_word(place(ar)) when deny_i = '0' else (others => '0');
      has_ar := false;
    end if;

    old_aw := axi_awvalid_i = '1' and axi_awready_o = '0';
    old_w := axi_wvalid_i = '1' and axi_wready_o = '0';
    old_ar := axi_arvalid_i = '1' and axi_arready_o = '0';
    last_aw := axi_awaddr_i;
    last_w := axi_wdata_i;
    last_ar := axi_araddr_i;
    axi_awready_o <= '1' when not has_aw and chance else '0';
    axi_wready_o <= '1' when not has_w and chance else '0';
    axi_arready_o <= '1' when not has_ar and chance else '0';
  end process serve;

end architecture model;
