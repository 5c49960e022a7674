-- SPDX-License-Identifier: MIT
-- The CPU Interface (thesis, section 5.4.2): the processor's calls as operations of the indices.
--
-- An allocation is served directly from its index, else with a pair of the index below, else by cutting a larger block.
-- If there is nothing of all this, the buffers are flushed to the lists and it is tried once more: only then is it
-- refused. The header of what is given out is written before any part of a cut block goes into a buffer, and before the
-- next call: the validity of headers rests on it (doc/ohebs.md).
--
-- fast_return_g: an allocation is answered as soon as its address is known. posted_g: a free is answered at once
-- (thesis, section 7.2); if it turns out to be wrong, late_o has the status, for one cycle.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity cpu_interface is
  generic (
    min_log2_g    : natural     := 4;
    heap_log2_g   : natural     := 25;
    depths_g      : per_index_t := (others => 8);
    fast_return_g : boolean     := true;
    posted_g      : boolean     := false;
    free_bit_g    : std_ulogic  := '0'
  );
  port (
    clk_i       : in    std_ulogic;
    rst_i       : in    std_ulogic;
    -- The processor.
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
    -- The indices.
    heap_o      : out   word_t;      -- one-hot: the heap's size
    clear_o     : out   std_ulogic;
    flush_o     : out   std_ulogic;
    enable_o    : out   word_t;
    op_o        : out   index_op_t;
    addr_o      : out   word_t;
    done_i      : in    std_ulogic;  -- all that are enabled have done it
    dones_i     : in    word_t;      -- those that have
    refused_i   : in    std_ulogic;
    answer_i    : in    word_t;      -- of the index that is enabled
    available_i : in    word_t;
    paired_i    : in    word_t;
    rest_i      : in    word_t;
    marks_o     : out   std_ulogic;  -- the marks of an index are set: which, low, high
    index_o     : out   natural range 0 to 31;
    low_o       : out   natural range 0 to 63;
    high_o      : out   natural range 0 to 63;
    -- The RAM interface.
    hold_o      : out   std_ulogic;
    still_i     : in    std_ulogic;
    req_o       : out   std_ulogic;
    we_o        : out   std_ulogic;
    mem_addr_o  : out   word_t;
    mem_wdata_o : out   word_t;
    ack_i       : in    std_ulogic;
    rdata_i     : in    word_t
  );
end entity cpu_interface;

architecture rtl of cpu_interface is

  type state_t is (
    idle, find, flush, take, header, written, parts,
    free_read, free_check, give_back,
    pass, init_check, marks_check, hold, clear, init_put
  );

  -- What a program gets begins behind the first word of its block, whose address has zeros there.
  function behind_header (block_at : word_t) return word_t is
  begin
    return block_at or std_ulogic_vector(to_unsigned(header_bytes_c, 32));
  end function behind_header;

  signal state   : state_t;
  signal heap    : word_t;
  signal fitting   : word_t;      -- those that a block of this heap can have; none: there is no heap
  signal size    : word_t;      -- one-hot: the size in question
  signal block_a : word_t;      -- the block in question; of a call that concerns none, its argument
  signal argument : word_t;
  signal enable  : word_t;
  signal cut     : word_t;      -- the sizes that still get a part
  signal top     : word_t;
  signal between : word_t;
  signal found   : std_ulogic;
  signal tried   : std_ulogic;  -- the buffers have been flushed for this call
  signal told    : std_ulogic;  -- the answer has been given
  signal pairs   : word_t;
  signal read    : word_t;
  signal below   : word_t;      -- the size in it, less one

begin

  finder : entity work.enhanced_fast_find
    port map (
      size_i      => size,
      available_i => available_i,
      top_o       => top,
      parts_o     => between,
      found_o     => found
    );

  ready_o  <= '1' when state = idle else '0';
  heap_o   <= heap;
  enable_o <= enable;
  addr_o   <= block_a;
  clear_o  <= '1' when state = clear else '0';
  flush_o  <= '1' when state = flush else '0';
  hold_o   <= '1' when state = hold or state = clear else '0';
  -- What is freed, without the bits below a block's size.
  argument <= data_i(31 downto min_log2_g) & std_ulogic_vector(to_unsigned(0, min_log2_g));

  -- A pair of the index below would do.
  pairs    <= paired_i and '0' & size(31 downto 1);

  with state select phase_o <=
    phase_idle_c when idle,
    phase_find_c when find | flush,
    phase_block_c when others;

  -- Values that count only together with done_o, req_o or enable_o: they go with the state, whatever is decided in it,
  -- which keeps them off the longest paths.
  choose_values : process (clk_i) is
  begin
    if rising_edge(clk_i) then
      result_o <= nothing_c;

      case state is

        when idle =>
          block_a     <= data_i;
          mem_addr_o  <= data_i(31 downto 2) & "00";
          mem_wdata_o <= wdata_i;
          if op_i = op_free_c then
            block_a    <= argument;
            mem_addr_o <= argument;
          end if;

        when take =>
          block_a  <= answer_i;
          result_o <= behind_header(answer_i);

        when header =>
          mem_addr_o  <= block_a;
          mem_wdata_o <= size(31 downto 1) & not free_bit_g;

        when written | parts =>
          result_o <= behind_header(block_a);

        when pass =>
          result_o <= rdata_i;

        when clear =>
          block_a <= (others => '0');

        when others =>
          null;

      end case;

    end if;
  end process choose_values;

  run : process (clk_i) is

    procedure answer (status : status_t) is
    begin
      done_o   <= '1';
      status_o <= status;
    end procedure answer;

    -- The end of a free: its answer, or if that has been given, what is wrong.
    procedure settle (status : status_t) is
    begin
      if told = '0' then
        answer(status);
      else
        late_o <= status;
      end if;
      state <= idle;
    end procedure settle;

    -- Of what choose_values has laid out.
    procedure transfer (write : std_ulogic; and_then : state_t) is
    begin
      req_o <= '1';
      we_o  <= write;
      state <= and_then;
    end procedure transfer;

    variable length : word_t;
    variable index  : natural range 0 to 31;
    variable low    : natural range 0 to 255;
    variable high   : natural range 0 to 255;

  begin
    if rising_edge(clk_i) then
      done_o  <= '0';
      late_o  <= status_ok_c;
      marks_o <= '0';

      case state is

        when idle =>
          tried <= '0';
          told  <= '0';
          cut   <= (others => '0');

          case op_i is

            when op_none_c =>
              null;

            when op_init_c =>
              state <= init_check;

            when op_alloc_c =>
              size  <= block_size(data_i, min_log2_g);
              state <= find;

            -- A block's address is a multiple of the smallest, within the heap; the program's lies behind its header.
            when op_free_c =>
              if fitting(min_log2_g) = '0' then
                answer(status_closed_c);
              elsif unsigned(data_i(min_log2_g - 1 downto 0)) /= header_bytes_c
                    or or_all(argument and not ('0' & fitting(31 downto 1))) = '1' then
                answer(status_bad_c);
              else
                if posted_g then
                  answer(status_ok_c);
                  told <= '1';
                end if;
                transfer('0', free_read);
              end if;

            when op_load_c =>
              transfer('0', pass);

            when op_store_c =>
              transfer('1', pass);

            when op_marks_c =>
              state <= marks_check;

            when others =>
              answer(status_bad_c);

          end case;

        -- Direct, pair, cut: in this order.
        when find =>
          state <= take;
          cut   <= (others => '0');
          if or_all(size and fitting) = '0' then
            if fitting(min_log2_g) = '0' then
              answer(status_closed_c);
            else
              answer(status_full_c);
            end if;
            state <= idle;
          elsif or_all(available_i and size) = '1' then
            enable <= size;
            op_o   <= index_alloc_c;
            how_o  <= how_direct_c;
          elsif or_all(pairs) = '1' then
            enable <= pairs;
            op_o   <= index_pair_c;
            how_o  <= how_pair_c;
          elsif found = '1' then
            enable <= top;
            op_o   <= index_alloc_c;
            cut    <= between;
            how_o  <= how_cut_c;
          elsif tried = '0' then
            state <= flush;
          else
            answer(status_full_c);
            state <= idle;
          end if;

        -- All buffers are emptied, all controllers at rest; as many drains as there are places, and joins.
        when flush =>
          if and rest_i then
            tried <= '1';
            state <= find;
          end if;

        when take =>
          if done_i = '1' then
            enable <= (others => '0');
            state  <= header;
            if fast_return_g then
              answer(status_ok_c);
              told <= '1';
            end if;
          elsif refused_i = '1' then
            -- What was there has gone elsewhere in the meantime.
            enable <= (others => '0');
            state  <= find;
          end if;

        when header =>
          transfer('1', written);

        when written =>
          if ack_i = '1' then
            req_o <= '0';
            if or_all(cut) = '1' then
              enable <= cut;
              op_o   <= index_part_c;
              state  <= parts;
            else
              if told = '0' then
                answer(status_ok_c);
              end if;
              state <= idle;
            end if;
          end if;

        -- All parts at once; those whose index has no room at this moment wait for it.
        when parts =>
          enable <= enable and not dones_i;
          if done_i = '1' then
            if told = '0' then
              answer(status_ok_c);
            end if;
            state <= idle;
          end if;

        when free_read =>
          if ack_i = '1' then
            req_o <= '0';
            read  <= rdata_i;
            below <= std_ulogic_vector(unsigned(rdata_i(31 downto 1) & '0') - 1);
            state <= free_check;
          end if;

        when free_check =>
          length := read(31 downto 1) & '0';
          if or_all(length and fitting) = '0' or or_all(length and not fitting) = '1'
             or or_all((length or block_a) and below) = '1' then
            settle(status_bad_c);
          elsif read(0) = free_bit_g then
            settle(status_double_c);
          else
            enable <= length;
            op_o   <= index_free_c;
            state  <= give_back;
          end if;

        when give_back =>
          if done_i = '1' then
            enable <= (others => '0');
            settle(status_ok_c);
          elsif refused_i = '1' then
            enable <= (others => '0');
            settle(status_double_c);
          end if;

        -- A load or a store of the processor's.
        when pass =>
          if ack_i = '1' then
            req_o <= '0';
            answer(status_ok_c);
            state <= idle;
          end if;

        -- The argument is in block_a.
        when marks_check =>
          state <= idle;
          index := to_integer(unsigned(block_a(4 downto 0)));
          low   := to_integer(unsigned(block_a(15 downto 8)));
          high  := to_integer(unsigned(block_a(23 downto 16)));
          -- A pair must find room above the low mark, and one mark must not undo what the other has done.
          if index < min_log2_g or index > heap_log2_g then
            answer(status_bad_c);
          elsif low >= depths_g(index) or high > depths_g(index) or low > high then
            answer(status_bad_c);
          else
            marks_o <= '1';
            index_o <= index;
            low_o   <= low;
            high_o  <= high;
            answer(status_ok_c);
          end if;

        when init_check =>
          if is_one_hot(block_a) and or_all(block_a and sizes(min_log2_g, heap_log2_g)) = '1' then
            heap  <= block_a;
            state <= hold;
          else
            answer(status_bad_c);
            state <= idle;
          end if;

        -- A heap is initialised by freeing it, as one block, into empty indices.
        when hold =>
          fitting <= or_above(heap);
          fitting(min_log2_g - 1 downto 0) <= (others => '0');
          if still_i = '1' then
            state <= clear;
          end if;

        when clear =>
          enable <= heap;
          op_o   <= index_free_c;
          state  <= init_put;

        when init_put =>
          if done_i = '1' then
            enable <= (others => '0');
            answer(status_ok_c);
            state <= idle;
          end if;

      end case;

      if rst_i = '1' then
        state   <= idle;
        heap    <= (others => '0');
        fitting   <= (others => '0');
        enable  <= (others => '0');
        req_o   <= '0';
        done_o  <= '0';
        late_o  <= status_ok_c;
        how_o   <= how_none_c;
        marks_o <= '0';
        tried   <= '0';
        told    <= '0';
        cut     <= (others => '0');
      end if;
    end if;
  end process run;

end architecture rtl;
