-- SPDX-License-Identifier: MIT
-- shared_indices with three indices and everything that can surround them: a heap of 64 bytes, its memory, and an
-- interface layer that asks whatever it may, in any order. In the beginning the program holds the whole heap, in blocks
-- of any sizes; it writes anything behind its blocks' headers at any moment. formal/prove.py runs the proofs;
-- doc/formal.md says what each assertion means.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;
  use work.short_words.all;

entity shared_indices_formal is
  generic (
    depth_g     : positive := 2;
    low_g       : natural  := 1;
    high_g      : natural  := 1;
    recombine_g : boolean  := false
  );
  port (
    clk_i        : in    std_ulogic;
    -- What the surroundings choose freely.
    begin_i      : in    std_ulogic;
    op_i         : in    index_op_t;
    level_i      : in    std_ulogic_vector(1 downto 0);  -- of the block: 0, 1, 2
    smaller_i    : in    std_ulogic_vector(1 downto 0);  -- what it is cut to
    block_i      : in    std_ulogic_vector(1 downto 0);
    noise_i      : in    std_ulogic;
    noise_at_i   : in    std_ulogic_vector(3 downto 0);
    noise_word_i : in    std_ulogic_vector(7 downto 0);
    halves_i     : in    std_ulogic_vector(1 downto 0);  -- in the beginning: the halves that are cut once more
    whole_i      : in    std_ulogic;                     -- or nothing is
    flush_i      : in    std_ulogic;
    ack_i        : in    std_ulogic
  );
end entity shared_indices_formal;

architecture formal of shared_indices_formal is

  -- Seven bits of a word matter here.
  constant kept_c : positive := 7;

  subtype short_t is std_ulogic_vector(kept_c downto 0);

  type levels_t is array (0 to 3) of unsigned(1 downto 0);

  type shorts_t is array (natural range <>) of short_t;

  function bit_if (condition : boolean) return std_ulogic is
  begin
    if condition then
      return '1';
    end if;
    return '0';
  end function bit_if;

  -- The smallest blocks that a block covers.
  function covers (level, block_at : unsigned(1 downto 0)) return std_ulogic_vector is
  begin
    if level = 2 then
      return "1111";
    elsif level = 1 then
      return block_at(1) & block_at(1) & not block_at(1) & not block_at(1);
    end if;
    return bit_if(block_at = 3) & bit_if(block_at = 2) & bit_if(block_at = 1) & bit_if(block_at = 0);
  end function covers;

  function one_hot (level : unsigned(1 downto 0)) return word_t is
  begin
    return x"000000" & '0' & bit_if(level = 2) & bit_if(level = 1) & bit_if(level = 0) & "0000";
  end function one_hot;

  function busy (level : unsigned(1 downto 0)) return short_t is
  begin
    return one_hot(level)(7 downto 1) & '1';
  end function busy;

  signal rst      : std_ulogic := '1';
  signal memory   : shorts_t(0 to 15);
  -- What the program holds: by smallest block whether a block begins there, of which level, and what it covers.
  signal begins   : std_ulogic_vector(3 downto 0) := "0000";
  signal levels   : levels_t;
  signal owned    : std_ulogic_vector(3 downto 0) := "0000";

  signal asking   : std_ulogic := '0';
  signal op       : index_op_t := index_alloc_c;
  signal at_level : unsigned(1 downto 0) := "00";
  signal enable   : word_t := (others => '0');
  signal addr     : word_t := (others => '0');

  signal chosen, wanted  : unsigned(1 downto 0);
  signal target, held    : unsigned(1 downto 0);
  signal has_held, may   : std_ulogic;
  signal noise_may       : std_ulogic;

  signal done, refused   : std_ulogic;
  signal got             : word_t;
  signal req, we, ack    : std_ulogic;
  signal mem_addr, wdata : word_t;
  signal rdata           : word_t;
  signal given           : std_ulogic_vector(3 downto 0);  -- what an answer covers
  signal wrong           : std_ulogic;

begin

  unit : entity work.shared_indices
    generic map (
      heap_log2_g => 6,
      depths_g    => (others => depth_g),
      recombine_g => recombine_g
    )
    port map (
      clk_i       => clk_i,
      rst_i       => rst,
      heap_i      => x"00000040",
      flush_i     => flush_i and not asking,
      lows_i      => (others => low_g),
      highs_i     => (others => high_g),
      enable_i    => enable,
      op_i        => op,
      addr_i      => addr,
      done_o      => done,
      refused_o   => refused,
      answer_o    => got,
      available_o => open,
      paired_o    => open,
      rest_o      => open,
      req_o       => req,
      we_o        => we,
      addr_o      => mem_addr,
      wdata_o     => wdata,
      ack_i       => ack,
      rdata_i     => rdata
    );

  ack    <= req and ack_i;
  chosen <= unsigned(block_i);
  wanted <= unsigned(level_i);
  target <= unsigned(smaller_i);

  -- An allocation of a level, or a pair of the one below; a free of what is held; a cut of it.
  with op_i select may <=
    bit_if(wanted <= 2) when index_alloc_c,
    bit_if(wanted = 1 or wanted = 2) when index_pair_c,
    has_held when index_free_c,
    has_held and bit_if(held > target) when others;

  given <= covers(at_level, unsigned(got(5 downto 4)));
  wrong <= '1' when asking = '1' and done = '1' and (op = index_alloc_c or op = index_pair_c) and
           ((given and owned) /= "0000" or
            (at_level /= 0 and got(4) = '1') or (at_level = 2 and got(5) = '1')) else '0';

  look_at_block : process (all) is
  begin
    held      <= "00";
    has_held  <= '0';
    noise_may <= '0';
    rdata     <= (others => '0');
    for k in 0 to 3 loop
      if chosen = k then
        held     <= levels(k);
        has_held <= begins(k);
      end if;
      if unsigned(noise_at_i(3 downto 2)) = k and owned(k) = '1' then
        noise_may <= noise_i and not (begins(k) and bit_if(noise_at_i(1 downto 0) = "00"));
      end if;
    end loop;
    for k in 0 to 15 loop
      if unsigned(mem_addr(5 downto 2)) = k then
        rdata <= lengthen(memory(k));
      end if;
    end loop;
  end process look_at_block;

  surround : process (clk_i) is

    -- No index varies here: ghdl would make a memory of it, and stumble.
    procedure write_word (number : unsigned; value : short_t) is
    begin
      for k in 0 to 15 loop
        if number = k then
          memory(k) <= value;
        end if;
      end loop;
    end procedure write_word;

    -- A block of the program's, from now on.
    procedure hold (block_at : unsigned(1 downto 0); of_level : unsigned(1 downto 0)) is
    begin
      for k in 0 to 3 loop
        if block_at = k then
          begins(k) <= '1';
          levels(k) <= of_level;
        end if;
      end loop;
      write_word(block_at & "00", busy(of_level));
    end procedure hold;

  begin
    if rising_edge(clk_i) then
      rst <= '0';
      if ack = '1' and we = '1' then
        write_word(unsigned(mem_addr(5 downto 2)), shorten(wdata, kept_c));
      end if;

      if asking = '0' and begin_i = '1' and may = '1' and rst = '0' then
        asking   <= '1';
        op       <= op_i;
        addr     <= x"000000" & "00" & block_i & "0000";
        at_level <= wanted;
        enable   <= one_hot(wanted);
        if op_i = index_pair_c then
          enable <= '0' & one_hot(wanted)(31 downto 1);
        elsif op_i = index_free_c then
          enable <= one_hot(held);
          owned  <= owned and not covers(held, chosen);
          for k in 0 to 3 loop
            if chosen = k then
              begins(k) <= '0';
            end if;
          end loop;
        elsif op_i = index_part_c then
          enable <= std_ulogic_vector(unsigned(one_hot(held)) - unsigned(one_hot(target)));
          -- What is left of it, its header written before the parts are anybody's.
          owned  <= (owned and not covers(held, chosen)) or covers(target, chosen);
          hold(chosen, target);
        end if;
      end if;

      if asking = '1' then
        if done = '1' or refused = '1' then
          asking <= '0';
          enable <= (others => '0');
        end if;
        if done = '1' and (op = index_alloc_c or op = index_pair_c) then
          owned <= owned or given;
          hold(unsigned(got(5 downto 4)), at_level);
        end if;
      end if;

      -- The program writes: anything into its blocks, but their first words.
      if noise_may = '1' and rst = '0' then
        write_word(unsigned(noise_at_i), noise_word_i);
      end if;

      if rst = '1' then
        owned <= "1111";
        if whole_i = '1' then
          hold("00", "10");
        else
          for half in 0 to 1 loop
            if halves_i(half) = '1' then
              hold(to_unsigned(2 * half, 2), "00");
              hold(to_unsigned(2 * half + 1, 2), "00");
            else
              hold(to_unsigned(2 * half, 2), "01");
            end if;
          end loop;
        end if;
      end if;
    end if;
  end process surround;

  default clock is rising_edge(clk_i);

  -- No block is handed out that is the program's, or not aligned.
  not_twice : assert always wrong = '0';
  -- No free of what is the program's is taken for a second one.
  free_is_taken : assert always (asking = '1' and (op = index_free_c or op = index_part_c)) -> refused = '0';

end architecture formal;
