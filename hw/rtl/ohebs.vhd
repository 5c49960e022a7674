-- SPDX-License-Identifier: MIT
-- The Optimized Hardware Estranged Buddy System (thesis, chapter 5): the interface layer and an index component for
-- each block size. doc/ohebs.md has its calls and generics.
--
-- The face is that of hbs, with loads and stores passed through: OHEBS lies between processor and memory.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity ohebs is
  generic (
    min_log2_g    : natural range 4 to 30 := 4;
    heap_log2_g   : natural range 5 to 31 := 25;  -- the largest heap; as many indices as sizes up to it
    depths_g      : per_index_t           := (others => 8);
    lows_g        : per_index_t           := (others => 2);  -- the marks at reset
    highs_g       : per_index_t           := (others => 6);
    fast_return_g : boolean               := true;
    posted_g      : boolean               := false;
    recombine_g   : boolean               := false;  -- thesis, section 7.3
    shared_g      : boolean               := false;  -- one RAM index controller for all indices: shared_indices
    free_bit_g    : std_ulogic            := '0'
  );
  port (
    clk_i       : in    std_ulogic;
    rst_i       : in    std_ulogic;
    op_i        : in    opcode_t;
    data_i      : in    word_t;
    wdata_i     : in    word_t;
    ready_o     : out   std_ulogic;
    done_o      : out   std_ulogic;
    status_o    : out   status_t;
    result_o    : out   word_t;
    late_o      : out   status_t;
    phase_o     : out   phase_t;
    how_o       : out   how_t;
    mem_req_o   : out   std_ulogic;
    mem_we_o    : out   std_ulogic;
    mem_addr_o  : out   word_t;
    mem_wdata_o : out   word_t;
    mem_ack_i   : in    std_ulogic;
    mem_rdata_i : in    word_t
  );
end entity ohebs;

architecture rtl of ohebs is

  -- With shared_g there is one that asks for memory.
  function last_asker return natural is
  begin
    if shared_g then
      return min_log2_g;
    end if;
    return heap_log2_g;
  end function last_asker;

  constant last_c : natural := last_asker;

  type marks_t is array (min_log2_g to heap_log2_g) of natural range 0 to 63;

  function initial (values : per_index_t) return marks_t is
    variable result : marks_t;
  begin
    for i in marks_t'range loop
      result(i) := values(i);
    end loop;
    return result;
  end function initial;

  signal lows, highs               : marks_t;
  signal marks                     : std_ulogic;
  signal marks_index               : natural range 0 to 31;
  signal marks_low, marks_high     : natural range 0 to 63;
  signal heap, enable, available   : word_t;
  signal done, refused             : std_ulogic;
  signal dones                     : word_t;
  signal paired, rest              : word_t;
  signal clear, flush              : std_ulogic;
  signal components_rst            : std_ulogic;
  signal index_op                  : index_op_t;
  signal index_addr, answer        : word_t;
  signal hold, still               : std_ulogic;
  signal cpu_req, cpu_we, cpu_ack  : std_ulogic;
  signal cpu_addr, cpu_wdata       : word_t;
  signal reqs, wes, acks           : word_t;
  signal addrs, wdatas             : words_t(min_log2_g to last_c);
  signal dependent                 : word_t;

begin

  assert heap_log2_g > min_log2_g
    report "ohebs: the heap must be larger than the smallest block"
    severity failure;

  cpu : entity work.cpu_interface
    generic map (
      min_log2_g    => min_log2_g,
      heap_log2_g   => heap_log2_g,
      depths_g      => depths_g,
      fast_return_g => fast_return_g,
      posted_g      => posted_g,
      free_bit_g    => free_bit_g
    )
    port map (
      clk_i       => clk_i,
      rst_i       => rst_i,
      op_i        => op_i,
      data_i      => data_i,
      wdata_i     => wdata_i,
      ready_o     => ready_o,
      done_o      => done_o,
      status_o    => status_o,
      result_o    => result_o,
      late_o      => late_o,
      phase_o     => phase_o,
      how_o       => how_o,
      heap_o      => heap,
      clear_o     => clear,
      flush_o     => flush,
      enable_o    => enable,
      op_o        => index_op,
      addr_o      => index_addr,
      done_i      => done,
      dones_i     => dones,
      refused_i   => refused,
      answer_i    => answer,
      available_i => available,
      paired_i    => paired,
      rest_i      => rest,
      marks_o     => marks,
      index_o     => marks_index,
      low_o       => marks_low,
      high_o      => marks_high,
      hold_o      => hold,
      still_i     => still,
      req_o       => cpu_req,
      we_o        => cpu_we,
      mem_addr_o  => cpu_addr,
      mem_wdata_o => cpu_wdata,
      ack_i       => cpu_ack,
      rdata_i     => mem_rdata_i
    );

  ram : entity work.ram_interface
    generic map (
      min_log2_g  => min_log2_g,
      heap_log2_g => last_c
    )
    port map (
      clk_i       => clk_i,
      rst_i       => rst_i,
      hold_i      => hold,
      still_o     => still,
      dependent_i => dependent,
      cpu_req_i   => cpu_req,
      cpu_we_i    => cpu_we,
      cpu_addr_i  => cpu_addr,
      cpu_wdata_i => cpu_wdata,
      cpu_ack_o   => cpu_ack,
      req_i       => reqs,
      we_i        => wes,
      addr_i      => addrs,
      wdata_i     => wdatas,
      ack_o       => acks,
      mem_req_o   => mem_req_o,
      mem_we_o    => mem_we_o,
      mem_addr_o  => mem_addr_o,
      mem_wdata_o => mem_wdata_o,
      mem_ack_i   => mem_ack_i
    );

  components_rst <= rst_i or clear;

  make_indices : if shared_g generate

    signal low_marks, high_marks : per_index_t;

  begin

    widen_marks : process (all) is
    begin
      low_marks  <= (others => 0);
      high_marks <= (others => 0);
      for k in marks_t'range loop
        low_marks(k)  <= lows(k);
        high_marks(k) <= highs(k);
      end loop;
    end process widen_marks;

    indices : entity work.shared_indices
      generic map (
        min_log2_g  => min_log2_g,
        heap_log2_g => heap_log2_g,
        depths_g    => depths_g,
        recombine_g => recombine_g,
        free_bit_g  => free_bit_g
      )
      port map (
        clk_i       => clk_i,
        rst_i       => components_rst,
        heap_i      => heap,
        flush_i     => flush,
        lows_i      => low_marks,
        highs_i     => high_marks,
        enable_i    => enable,
        op_i        => index_op,
        addr_i      => index_addr,
        done_o      => done,
        refused_o   => refused,
        answer_o    => answer,
        available_o => available,
        paired_o    => paired,
        rest_o      => rest,
        req_o       => reqs(min_log2_g),
        we_o        => wes(min_log2_g),
        addr_o      => addrs(min_log2_g),
        wdata_o     => wdatas(min_log2_g),
        ack_i       => acks(min_log2_g),
        rdata_i     => mem_rdata_i
      );

    dones                 <= (others => done);
    dependent(min_log2_g) <= or_all(enable);

    make_none : for k in word_t'range generate

      -- Nobody else asks.
      another : if k /= min_log2_g generate
        reqs(k)      <= '0';
        wes(k)       <= '0';
        dependent(k) <= '0';
      end generate another;

    end generate make_none;

  else generate

    signal answers         : words_t(min_log2_g to heap_log2_g);
    signal refusals        : word_t;
    signal ups, rises_done : std_ulogic_vector(min_log2_g to heap_log2_g + 1);
    signal up_addrs        : words_t(min_log2_g to heap_log2_g + 1);

  begin

    dependent <= enable;
    done      <= not or_all(enable and not dones);
    refused   <= or_all(enable and refusals);

    ups(min_log2_g)             <= '0';
    up_addrs(min_log2_g)        <= (others => '0');
    rises_done(heap_log2_g + 1) <= '0';

    make_each : for k in min_log2_g to heap_log2_g generate

      index : entity work.index_component
        generic map (
          index_g     => k,
          heap_log2_g => heap_log2_g + 1,
          depth_g     => depths_g(k),
          recombine_g => recombine_g,
          free_bit_g  => free_bit_g
        )
        port map (
          clk_i       => clk_i,
          rst_i       => components_rst,
          whole_i     => heap(k),
          flush_i     => flush,
          low_i       => lows(k),
          high_i      => highs(k),
          enable_i    => enable(k),
          op_i        => index_op,
          addr_i      => index_addr,
          done_o      => dones(k),
          refused_o   => refusals(k),
          addr_o      => answers(k),
          available_o => available(k),
          paired_o    => paired(k),
          rest_o      => rest(k),
          rise_i      => ups(k),
          rise_addr_i => up_addrs(k),
          rise_done_o => rises_done(k),
          up_o        => ups(k + 1),
          up_addr_o   => up_addrs(k + 1),
          up_done_i   => rises_done(k + 1),
          req_o       => reqs(k),
          we_o        => wes(k),
          mem_addr_o  => addrs(k),
          wdata_o     => wdatas(k),
          ack_i       => acks(k),
          rdata_i     => mem_rdata_i
        );

    end generate make_each;

    make_none : for k in word_t'range generate

      -- There is no such size.
      beyond : if k < min_log2_g or k > heap_log2_g generate
        dones(k)     <= '0';
        refusals(k)  <= '0';
        available(k) <= '0';
        paired(k)    <= '0';
        rest(k)      <= '1';
        reqs(k)      <= '0';
        wes(k)       <= '0';
      end generate beyond;

    end generate make_none;

    choose_answer : process (all) is

      variable chosen : word_t;

    begin
      chosen := (others => '0');
      for k in answers'range loop
        if enable(k) = '1' then
          chosen := chosen or answers(k);
        end if;
      end loop;
      answer <= chosen;
    end process choose_answer;

  end generate make_indices;

  keep_marks : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      if marks = '1' then
        lows(marks_index)  <= marks_low;
        highs(marks_index) <= marks_high;
      end if;
      if rst_i = '1' then
        lows  <= initial(lows_g);
        highs <= initial(highs_g);
      end if;
    end if;
  end process keep_marks;

end architecture rtl;
