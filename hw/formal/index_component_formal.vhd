-- SPDX-License-Identifier: MIT
-- An index component with everything that can surround it, for proofs: a heap of four blocks of 16 bytes, their memory,
-- and a processor that does whatever it may. A pair of blocks is either one larger block of the processor's (joined)
-- or two blocks of this index, each the processor's (held) or not. formal/prove.py runs the proofs; doc/formal.md says
-- what each assertion means.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;
  use work.short_words.all;

entity index_component_formal is
  generic (
    depth_g     : positive := 3;
    low_g       : natural  := 1;
    high_g      : natural  := 2;
    recombine_g : boolean  := false
  );
  port (
    clk_i     : in    std_ulogic;
    -- What the processor and the memory choose freely.
    begin_i   : in    std_ulogic;
    op_i      : in    index_op_t;
    block_i   : in    std_ulogic_vector(1 downto 0);
    write_i   : in    std_ulogic;  -- the header of what was allocated is written now
    noise_i   : in    std_ulogic;  -- the program writes
    noise_block_i : in std_ulogic_vector(1 downto 0);
    noise_word_i  : in word_t;
    flush_i   : in    std_ulogic;
    up_done_i : in    std_ulogic;
    ack_i     : in    std_ulogic
  );
end entity index_component_formal;

architecture formal of index_component_formal is

  constant busy_c : word_t := x"00000011";

  signal rst    : std_ulogic := '1';
  -- Six bits of a word matter here.
  constant kept_c : positive := 6;

  subtype short_t is std_ulogic_vector(kept_c downto 0);

  type shorts_t is array (natural range <>) of short_t;

  signal memory : shorts_t(0 to 15);

  signal joined : std_ulogic_vector(1 downto 0) := "11";    -- by pair
  signal held   : std_ulogic_vector(3 downto 0) := "0000";  -- by block

  signal asking  : std_ulogic := '0';
  signal op      : index_op_t := index_alloc_c;
  signal target  : std_ulogic_vector(1 downto 0) := "00";
  -- An allocated block whose header is not written yet: nothing new is asked till then.
  signal unwritten : std_ulogic := '0';
  signal written   : std_ulogic_vector(1 downto 0) := "00";

  signal addr, got         : word_t;
  signal done, refused     : std_ulogic;
  signal req, we, ack      : std_ulogic;
  signal mem_addr, wdata   : word_t;
  signal rdata             : word_t;
  signal got_block         : natural range 0 to 3;
  signal got_pair          : natural range 0 to 1;
  signal up                : std_ulogic;
  signal up_addr           : word_t;
  signal may_begin         : std_ulogic;

begin

  unit : entity work.index_component
    generic map (
      index_g     => 4,
      heap_log2_g => 6,
      depth_g     => depth_g,
      recombine_g => recombine_g
    )
    port map (
      clk_i       => clk_i,
      rst_i       => rst,
      whole_i     => '0',
      flush_i     => flush_i and not asking,
      low_i       => low_g,
      high_i      => high_g,
      enable_i    => asking,
      op_i        => op,
      addr_i      => addr,
      done_o      => done,
      refused_o   => refused,
      addr_o      => got,
      available_o => open,
      paired_o    => open,
      rest_o      => open,
      rise_i      => '0',
      rise_addr_i => (others => '0'),
      rise_done_o => open,
      up_o        => up,
      up_addr_o   => up_addr,
      up_done_i   => up_done_i,
      req_o       => req,
      we_o        => we,
      mem_addr_o  => mem_addr,
      wdata_o     => wdata,
      ack_i       => ack,
      rdata_i     => rdata
    );

  addr      <= x"000000" & "00" & target & "0000";
  got_block <= to_integer(unsigned(got(5 downto 4)));
  got_pair  <= to_integer(unsigned(got(5 downto 5)));
  rdata     <= lengthen(memory(to_integer(unsigned(mem_addr(5 downto 2)))));
  ack       <= req and ack_i;

  -- What a processor may ask: an allocation or a pair at any time, a free of what it holds, a cut of what is joined.
  may_begin <= '1' when asking = '0' and unwritten = '0' and rst = '0' and
               (op_i = index_alloc_c or op_i = index_pair_c or
                (op_i = index_free_c and held(to_integer(unsigned(block_i))) = '1') or
                (op_i = index_part_c and block_i(0) = '0' and joined(to_integer(unsigned(block_i(1 downto 1)))) = '1'))
               else '0';

  surround : process (clk_i) is

    variable pair : natural range 0 to 1;

  begin
    if rising_edge(clk_i) then
      rst <= '0';
      if req = '1' and ack = '1' and we = '1' then
        memory(to_integer(unsigned(mem_addr(5 downto 2)))) <= shorten(wdata, kept_c);
      end if;

      if asking = '0' and begin_i = '1' and may_begin = '1' then
        asking <= '1';
        op     <= op_i;
        target <= block_i;
        if op_i = index_free_c then
          held(to_integer(unsigned(block_i))) <= '0';
          -- It comes back whole, with the header that it was given out with.
          memory(4 * to_integer(unsigned(block_i))) <= shorten(busy_c, kept_c);
        end if;
        if op_i = index_part_c then
          pair := to_integer(unsigned(block_i(1 downto 1)));
          joined(pair) <= '0';
          -- The left part is in use, its header written before the cut.
          held(2 * pair) <= '1';
          memory(8 * pair) <= shorten(busy_c, kept_c);
        end if;
      end if;

      if asking = '1' then
        if done = '1' or refused = '1' then
          asking <= '0';
        end if;
        if done = '1' and op = index_alloc_c then
          held(got_block) <= '1';
          unwritten <= '1';
          written <= got(5 downto 4);
        elsif done = '1' and op = index_pair_c then
          joined(got_pair) <= '1';
        end if;
      end if;

      if unwritten = '1' and write_i = '1' then
        unwritten <= '0';
        memory(4 * to_integer(unsigned(written))) <= shorten(busy_c, kept_c);
      end if;

      -- Joined in the lists: the pair is above us now, and comes back whole.
      if up = '1' and up_done_i = '1' then
        joined(to_integer(unsigned(up_addr(5 downto 5)))) <= '1';
      end if;

      -- Of a joined pair, every word may be anything but the first, which the larger block's header is.
      if noise_i = '1' and joined(to_integer(unsigned(noise_block_i(1 downto 1)))) = '1' and noise_block_i(0) = '1' then
        memory(4 * to_integer(unsigned(noise_block_i))) <= noise_word_i(6 downto 0);
      end if;
      -- A block of the processor's may be cut into smaller ones, the first of which may be free: anything but this
      -- size.
      if noise_i = '1' and held(to_integer(unsigned(noise_block_i))) = '1'
         and noise_word_i(6 downto 0) /= "0010000" then
        memory(4 * to_integer(unsigned(noise_block_i))) <= noise_word_i(6 downto 0);
      end if;
    end if;
  end process surround;

  default clock is rising_edge(clk_i);

  -- No block is handed out that is the processor's.
  not_twice : assert always (rst = '0' and asking = '1' and done = '1' and op = index_alloc_c) ->
    (held(got_block) = '0' and joined(got_pair) = '0');
  pair_not_twice : assert always (rst = '0' and asking = '1' and done = '1' and op = index_pair_c) ->
    (held(2 * got_pair) = '0' and held(2 * got_pair + 1) = '0' and joined(got_pair) = '0' and got(4) = '0');
  up_not_twice : assert always (rst = '0' and up = '1') ->
    (held(to_integer(unsigned(up_addr(5 downto 5)) & '0')) = '0' and
     held(to_integer(unsigned(up_addr(5 downto 5)) & '1')) = '0' and
     joined(to_integer(unsigned(up_addr(5 downto 5)))) = '0');
  -- No free of what is the processor's is taken for a second one.
  free_is_taken : assert always (rst = '0' and asking = '1' and op = index_free_c) -> refused = '0';
  part_is_taken : assert always (rst = '0' and asking = '1' and op = index_part_c) -> refused = '0';

end architecture formal;
