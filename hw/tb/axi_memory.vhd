-- SPDX-License-Identifier: MIT
-- A memory on AXI4-Lite for benches, which keeps its master waiting at random on every channel. It fails if the master
-- takes back or changes what it has offered, leaves its window, or writes parts of words. While deny_i is one, every
-- transfer ends with an error and does nothing.
--
-- look_i: the processor's own load or store, which does not come over this bus; done in the next cycle.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;
  use work.window_memory.all;

entity axi_memory is
  port (
    clk_i         : in    std_ulogic;
    deny_i        : in    std_ulogic;
    base_i        : in    word_t;   -- the window that the master may use
    bytes_i       : in    natural;
    look_i        : in    std_ulogic := '0';
    look_we_i     : in    std_ulogic := '0';
    look_addr_i   : in    word_t     := (others => '0');
    look_wdata_i  : in    word_t     := (others => '0');
    look_rdata_o  : out   word_t;
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

begin

  serve : process is

    -- What the master sends over one channel: is it waiting to be taken, and has it been?
    type channel_t is record
      offered : boolean;
      has     : boolean;
      last    : word_t;  -- offered
      value   : word_t;  -- taken
    end record channel_t;

    constant empty_c : channel_t := (false, false, (others => '0'), (others => '0'));

    variable memory    : window_memory_t;
    variable aw, w, ar : channel_t := empty_c;

    -- At an edge: what was offered before and not taken must still be there. `side` is what comes with the value, and
    -- is `right`.
    procedure look_at (name : string; channel : inout channel_t; valid, ready : std_ulogic; value : word_t;
                       side, right : std_ulogic_vector) is
    begin
      assert not channel.offered or (valid = '1' and value = channel.last)
        report "axi_memory: " & name & " was taken back or changed before it was taken"
        severity failure;
      assert valid = '0' or side = right
        report "axi_memory: " & name & " with protection, or of a part of a word"
        severity failure;
      channel.offered := valid = '1' and ready = '0';
      channel.last := value;
      if valid = '1' and ready = '1' then
        channel.has := true;
        channel.value := value;
      end if;
    end procedure look_at;

    -- Whether the channel's next value may come.
    impure function ready_for (channel : channel_t) return std_ulogic is
    begin
      if not channel.has and memory.chance then
        return '1';
      end if;
      return '0';
    end function ready_for;

  begin
    wait until rising_edge(clk_i);
    memory.move("axi_memory", base_i, bytes_i);
    look_at("a write's address", aw, axi_awvalid_i, axi_awready_o, axi_awaddr_i, axi_awprot_i, "000");
    look_at("a write's data", w, axi_wvalid_i, axi_wready_o, axi_wdata_i, axi_wstrb_i, "1111");
    look_at("a read's address", ar, axi_arvalid_i, axi_arready_o, axi_araddr_i, axi_arprot_i, "000");
    assert not ((aw.has or w.has) and ar.has)
      report "axi_memory: two transfers at once"
      severity failure;

    if axi_bvalid_o = '1' and axi_bready_i = '1' then
      axi_bvalid_o <= '0';
    end if;
    if axi_rvalid_o = '1' and axi_rready_i = '1' then
      axi_rvalid_o <= '0';
      axi_rdata_o <= (others => 'X');
    end if;
    if aw.has and w.has and axi_bvalid_o = '0' and memory.chance then
      axi_bvalid_o <= '1';
      axi_bresp_o <= deny_i & '0';
      if deny_i = '0' then
        memory.write_word(aw.value, w.value);
      end if;
      aw.has := false;
      w.has := false;
    end if;
    if ar.has and axi_rvalid_o = '0' and memory.chance then
      axi_rvalid_o <= '1';
      axi_rresp_o <= deny_i & deny_i;
      axi_rdata_o <= memory.read_word(ar.value) when deny_i = '0' else (others => '0');
      ar.has := false;
    end if;

    axi_awready_o <= ready_for(aw);
    axi_wready_o <= ready_for(w);
    axi_arready_o <= ready_for(ar);

    if look_i = '1' then
      if look_we_i = '1' then
        memory.write_word(look_addr_i, look_wdata_i);
      else
        look_rdata_o <= memory.read_word(look_addr_i);
      end if;
    end if;
  end process serve;

end architecture model;
