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
    done_i      : in    word_t;
    refused_i   : in    word_t;
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
    pass, hold, clear, init_put
  );

  signal state   : state_t;
  signal heap    : word_t;
  signal size    : word_t;      -- one-hot: the size in question
  signal block_a : word_t;
  signal enable  : word_t;
  signal cut     : word_t;      -- the sizes that still get a part
  signal top     : word_t;
  signal between : word_t;
  signal found   : std_ulogic;
  signal tried   : std_ulogic;  -- the buffers have been flushed for this call
  signal told    : std_ulogic;  -- the answer has been given
  signal pairs   : word_t;
  signal read    : word_t;

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
  -- A pair of the index below would do.
  pairs    <= paired_i and '0' & size(31 downto 1);

  with state select phase_o <=
    phase_idle_c when idle,
    phase_find_c when find | flush,
    phase_block_c when others;

  run : process (clk_i) is

    procedure answer (status : status_t; value : word_t) is
    begin
      done_o   <= '1';
      status_o <= status;
      result_o <= value;
    end procedure answer;

    -- The end of a free: its answer, or if that has been given, what is wrong.
    procedure settle (status : status_t) is
    begin
      if told = '0' then
        answer(status, nothing_c);
      else
        late_o <= status;
      end if;
      state <= idle;
    end procedure settle;

    procedure transfer (write : std_ulogic; address : word_t; value : word_t; and_then : state_t) is
    begin
      req_o       <= '1';
      we_o        <= write;
      mem_addr_o  <= address;
      mem_wdata_o <= value;
      state       <= and_then;
    end procedure transfer;

    variable wanted : word_t;
    variable offset : word_t;
    variable length : word_t;
    variable left   : word_t;
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
              if is_one_hot(data_i) and unsigned(data_i) >= 2 ** min_log2_g
                 and unsigned(data_i) <= 2 ** heap_log2_g then
                heap  <= data_i;
                state <= hold;
              else
                answer(status_bad_c, nothing_c);
              end if;

            when op_alloc_c =>
              wanted := block_size(data_i, min_log2_g);
              size   <= wanted;
              if or_all(heap) = '0' then
                answer(status_closed_c, nothing_c);
              elsif or_all(wanted) = '0' or unsigned(wanted) > unsigned(heap) then
                answer(status_full_c, nothing_c);
              else
                state <= find;
              end if;

            when op_free_c =>
              offset  := std_ulogic_vector(unsigned(data_i) - header_bytes_c);
              block_a <= offset;
              if or_all(heap) = '0' then
                answer(status_closed_c, nothing_c);
              elsif unsigned(offset) >= unsigned(heap) or or_all(offset(min_log2_g - 1 downto 0)) = '1' then
                answer(status_bad_c, nothing_c);
              else
                if posted_g then
                  answer(status_ok_c, nothing_c);
                  told <= '1';
                end if;
                transfer('0', offset, nothing_c, free_read);
              end if;

            when op_load_c =>
              transfer('0', data_i(31 downto 2) & "00", nothing_c, pass);

            when op_store_c =>
              transfer('1', data_i(31 downto 2) & "00", wdata_i, pass);

            when op_marks_c =>
              index := to_integer(unsigned(data_i(4 downto 0)));
              low   := to_integer(unsigned(data_i(15 downto 8)));
              high  := to_integer(unsigned(data_i(23 downto 16)));
              -- A pair must find room above the low mark, and one mark must not undo what the other has done.
              if index < min_log2_g or index > heap_log2_g then
                answer(status_bad_c, nothing_c);
              elsif low >= depths_g(index) or high > depths_g(index) or low > high then
                answer(status_bad_c, nothing_c);
              else
                marks_o <= '1';
                index_o <= index;
                low_o   <= low;
                high_o  <= high;
                answer(status_ok_c, nothing_c);
              end if;

            when others =>
              answer(status_bad_c, nothing_c);

          end case;

        -- Direct, pair, cut: in this order.
        when find =>
          state <= take;
          cut   <= (others => '0');
          if or_all(available_i and size) = '1' then
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
            answer(status_full_c, nothing_c);
            state <= idle;
          end if;

        -- All buffers are emptied, all controllers at rest; as many drains as there are places, and joins.
        when flush =>
          if and rest_i then
            tried <= '1';
            state <= find;
          end if;

        when take =>
          if or_all(done_i and enable) = '1' then
            enable  <= (others => '0');
            block_a <= answer_i;
            state   <= header;
            if fast_return_g then
              answer(status_ok_c, plus(answer_i, header_bytes_c));
              told <= '1';
            end if;
          elsif or_all(refused_i and enable) = '1' then
            -- What was there has gone elsewhere in the meantime.
            enable <= (others => '0');
            state  <= find;
          end if;

        when header =>
          transfer('1', block_a, size(31 downto 1) & not free_bit_g, written);

        when written =>
          if ack_i = '1' then
            req_o <= '0';
            if or_all(cut) = '1' then
              enable <= cut;
              op_o   <= index_part_c;
              state  <= parts;
            else
              if told = '0' then
                answer(status_ok_c, plus(block_a, header_bytes_c));
              end if;
              state <= idle;
            end if;
          end if;

        -- All parts at once; those whose index has no room at this moment wait for it.
        when parts =>
          left := enable and not done_i;
          enable <= left;
          if or_all(left) = '0' then
            if told = '0' then
              answer(status_ok_c, plus(block_a, header_bytes_c));
            end if;
            state <= idle;
          end if;

        when free_read =>
          if ack_i = '1' then
            req_o <= '0';
            read  <= rdata_i;
            state <= free_check;
          end if;

        when free_check =>
          length := read(31 downto 1) & '0';
          if not is_one_hot(length) or unsigned(length) < 2 ** min_log2_g or unsigned(length) > unsigned(heap)
             or or_all(block_a and std_ulogic_vector(unsigned(length) - 1)) = '1' then
            settle(status_bad_c);
          elsif read(0) = free_bit_g then
            settle(status_double_c);
          else
            enable <= length;
            op_o   <= index_free_c;
            state  <= give_back;
          end if;

        when give_back =>
          if or_all(done_i and enable) = '1' then
            enable <= (others => '0');
            settle(status_ok_c);
          elsif or_all(refused_i and enable) = '1' then
            enable <= (others => '0');
            settle(status_double_c);
          end if;

        -- A load or a store of the processor's.
        when pass =>
          if ack_i = '1' then
            req_o <= '0';
            answer(status_ok_c, rdata_i);
            state <= idle;
          end if;

        -- A heap is initialised by freeing it, as one block, into empty indices.
        when hold =>
          if still_i = '1' then
            state <= clear;
          end if;

        when clear =>
          block_a <= (others => '0');
          enable  <= heap;
          op_o    <= index_free_c;
          state   <= init_put;

        when init_put =>
          if or_all(done_i and enable) = '1' then
            enable <= (others => '0');
            answer(status_ok_c, nothing_c);
            state <= idle;
          end if;

      end case;

      if rst_i = '1' then
        state   <= idle;
        heap    <= (others => '0');
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
