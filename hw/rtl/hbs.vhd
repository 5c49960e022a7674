-- SPDX-License-Identifier: MIT
-- The Hardware Buddy System (thesis, chapter 4): Knuth's buddy system with its lists in memory and their heads in
-- registers. `optimised_g` adds Fast Find (one step instead of one for each index) and Fast Return (the answer as soon
-- as the block is known and its link read; the blocks cut off are listed afterwards). doc/hbs.md has the states and
-- what each call costs.
--
-- A call: the processor sets op_i and data_i while ready_o is set. The answer comes with done_o, for one cycle;
-- ready_o comes back when everything is done. The calls and their answers are those of coffer-rt's in-band Knuth
-- policy, address by address.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity hbs is
  generic (
    heap_log2_g : natural range 5 to 31 := 25;  -- the largest heap that can be initialised
    min_log2_g  : natural range 4 to 30 := 4;
    optimised_g : boolean               := true;
    free_bit_g  : std_ulogic            := '0'  -- bit 0 of a free block's header
  );
  port (
    clk_i       : in    std_ulogic;
    rst_i       : in    std_ulogic;
    op_i        : in    opcode_t;
    data_i      : in    word_t;
    ready_o     : out   std_ulogic;
    done_o      : out   std_ulogic;
    status_o    : out   status_t;
    result_o    : out   word_t;
    phase_o     : out   phase_t;
    mem_req_o   : out   std_ulogic;
    mem_we_o    : out   std_ulogic;
    mem_addr_o  : out   word_t;
    mem_wdata_o : out   word_t;
    mem_ack_i   : in    std_ulogic;
    mem_rdata_i : in    word_t
  );
end entity hbs;

architecture rtl of hbs is

  type state_t is (
    idle, transfer,
    find, take, take_next, unhead, cut, cut_previous, cut_next, give,
    free_header, free_check, buddy, buddy_check, buddy_previous, buddy_next, unlink_before, unlink_after, erase,
    put, put_previous, put_next, put_old, finish
  );

  signal state, next_state : state_t;

  -- The lists: a head for each size, and which of them are not empty.
  signal heads : words_t(min_log2_g to heap_log2_g);
  signal lists : word_t;

  signal heap    : word_t;      -- the heap's size, zeros before it is initialised
  signal block_a : word_t;      -- the block in work
  signal size    : word_t;      -- one-hot: the size wanted, or that of the block being freed
  signal current : word_t;      -- one-hot: the size of the block in work
  signal ahead   : word_t;      -- the links of a buddy that leaves its list
  signal behind  : word_t;
  signal read    : word_t;      -- what the last transfer has read
  signal found   : word_t;
  signal fits    : std_ulogic;
  signal answered : std_ulogic;

  signal req   : std_ulogic;
  signal we    : std_ulogic;
  signal addr  : word_t;
  signal wdata : word_t;

  function header (length : word_t; bit_0 : std_ulogic) return word_t is
  begin
    return length(31 downto 1) & bit_0;
  end function header;

begin

  assert heap_log2_g > min_log2_g
    report "hbs: the heap must be larger than the smallest block"
    severity failure;

  finder : entity work.fast_find
    port map (
      size_i  => current,
      lists_i => lists,
      index_o => found,
      found_o => fits
    );

  ready_o     <= '1' when state = idle else '0';
  mem_req_o   <= req;
  mem_we_o    <= we;
  mem_addr_o  <= addr;
  mem_wdata_o <= wdata;

  with state select phase_o <=
    phase_idle_c when idle,
    phase_find_c when find,
    phase_block_c when others;

  work_through : process (clk_i) is

    procedure read_word (from : word_t; offset : natural; and_then : state_t) is
    begin
      req   <= '1';
      we    <= '0';
      addr  <= plus(from, offset);
      next_state <= and_then;
      state <= transfer;
    end procedure read_word;

    procedure write_word (into : word_t; offset : natural; value : word_t; and_then : state_t) is
    begin
      req   <= '1';
      we    <= '1';
      addr  <= plus(into, offset);
      wdata <= value;
      next_state <= and_then;
      state <= transfer;
    end procedure write_word;

    procedure answer (status : status_t; value : word_t) is
    begin
      done_o   <= '1';
      status_o <= status;
      result_o <= value;
    end procedure answer;

    procedure set_head (one_hot : word_t; value : word_t) is
    begin
      heads(bit_number(one_hot)) <= value;
      if value = nothing_c then
        lists <= lists and not one_hot;
      else
        lists <= lists or one_hot;
      end if;
    end procedure set_head;

    variable top    : word_t;
    variable offset : word_t;
    variable length : word_t;
    variable half   : word_t;

  begin
    if rising_edge(clk_i) then
      done_o <= '0';

      case state is

        when idle =>
          answered <= '0';
          block_a  <= data_i;
          if op_i = op_init_c then
            if is_one_hot(data_i) and or_all(data_i and sizes(min_log2_g, heap_log2_g)) = '1' then
              heap    <= data_i;
              current <= data_i;
              heads   <= (others => nothing_c);
              lists   <= (others => '0');
              block_a <= (others => '0');
              state   <= put;
            else
              answer(status_bad_c, nothing_c);
            end if;
          elsif op_i = op_alloc_c then
            top     := block_size(data_i, min_log2_g);
            size    <= top;
            current <= top;
            if or_all(heap) = '0' then
              answer(status_closed_c, nothing_c);
            elsif or_all(top) = '0' or unsigned(top) > unsigned(heap) then
              answer(status_full_c, nothing_c);
            else
              state <= find;
            end if;
          elsif op_i = op_free_c then
            offset := std_ulogic_vector(unsigned(data_i) - header_bytes_c);
            block_a <= offset;
            if or_all(heap) = '0' then
              answer(status_closed_c, nothing_c);
            elsif unsigned(offset) >= unsigned(heap) or or_all(offset(min_log2_g - 1 downto 0)) = '1' then
              answer(status_bad_c, nothing_c);
            else
              state <= free_header;
            end if;
          elsif op_i /= op_none_c then
            answer(status_bad_c, nothing_c);
          end if;

        -- A memory transfer; then wherever it was for.
        when transfer =>
          if mem_ack_i = '1' then
            req   <= '0';
            read  <= mem_rdata_i;
            state <= next_state;
          end if;

        -- Which list the block comes from: `current`.
        when find =>
          if optimised_g then
            current <= found;
            if fits = '1' then
              state <= take;
            else
              answer(status_full_c, nothing_c);
              state <= idle;
            end if;
          elsif or_all(current and lists) = '1' then
            state <= take;
          elsif current = heap then
            answer(status_full_c, nothing_c);
            state <= idle;
          else
            current <= current(30 downto 0) & '0';
          end if;

        -- Off its list. The link must be read before the program may write over it.
        when take =>
          block_a <= heads(bit_number(current));
          read_word(heads(bit_number(current)), field_next_c, take_next);

        when take_next =>
          set_head(current, read);
          if optimised_g then
            answer(status_ok_c, plus(block_a, header_bytes_c));
            answered <= '1';
          end if;
          state <= unhead;

        when unhead =>
          if read = nothing_c then
            state <= cut;
          else
            write_word(read, field_previous_c, nothing_c, cut);
          end if;

        -- The right halves go to their lists, the largest first; these were empty, or a smaller block had been found.
        when cut =>
          if current = size then
            write_word(block_a, field_size_c, header(size, not free_bit_g), give);
          else
            half    := '0' & current(31 downto 1);
            current <= half;
            write_word(block_a or half, field_size_c, header(half, free_bit_g), cut_previous);
          end if;

        when cut_previous =>
          write_word(block_a or current, field_previous_c, nothing_c, cut_next);

        when cut_next =>
          set_head(current, block_a or current);
          write_word(block_a or current, field_next_c, heads(bit_number(current)), cut);

        when give =>
          if answered = '0' then
            answer(status_ok_c, plus(block_a, header_bytes_c));
          end if;
          state <= idle;

        -- A free: is there a live block?
        when free_header =>
          read_word(block_a, field_size_c, free_check);

        when free_check =>
          length := header(read, '0');
          current <= length;
          if not is_one_hot(length) or unsigned(length) < 2 ** min_log2_g or unsigned(length) > unsigned(heap)
             or or_all(block_a and std_ulogic_vector(unsigned(length) - 1)) = '1' then
            answer(status_bad_c, nothing_c);
            state <= idle;
          elsif read(0) = free_bit_g then
            answer(status_double_c, nothing_c);
            state <= idle;
          else
            state <= buddy;
          end if;

        -- While the buddy is free as a whole, it leaves its list and the two are one. The whole heap has no buddy.
        when buddy =>
          if current = heap then
            state <= put;
          else
            read_word(block_a xor current, field_size_c, buddy_check);
          end if;

        when buddy_check =>
          if read = header(current, free_bit_g) then
            state <= buddy_previous;
          else
            state <= put;
          end if;

        when buddy_previous =>
          read_word(block_a xor current, field_previous_c, buddy_next);

        when buddy_next =>
          ahead <= read;
          read_word(block_a xor current, field_next_c, unlink_before);

        when unlink_before =>
          behind <= read;
          if ahead = nothing_c then
            set_head(current, read);
            state <= unlink_after;
          else
            write_word(ahead, field_next_c, read, unlink_after);
          end if;

        when unlink_after =>
          if behind = nothing_c then
            state <= erase;
          else
            write_word(behind, field_previous_c, ahead, erase);
          end if;

        -- No block begins at the right one any more.
        when erase =>
          block_a <= block_a and not current;
          current <= current(30 downto 0) & '0';
          write_word(block_a or current, field_size_c, (others => '0'), buddy);

        -- Onto its list, in front.
        when put =>
          write_word(block_a, field_size_c, header(current, free_bit_g), put_previous);

        when put_previous =>
          write_word(block_a, field_previous_c, nothing_c, put_next);

        when put_next =>
          ahead <= heads(bit_number(current));
          write_word(block_a, field_next_c, heads(bit_number(current)), put_old);

        when put_old =>
          set_head(current, block_a);
          if ahead = nothing_c then
            state <= finish;
          else
            write_word(ahead, field_previous_c, block_a, finish);
          end if;

        when finish =>
          answer(status_ok_c, nothing_c);
          state <= idle;

      end case;

      if rst_i = '1' then
        state    <= idle;
        req      <= '0';
        done_o   <= '0';
        answered <= '0';
        heap     <= (others => '0');
        lists    <= (others => '0');
      end if;
    end if;
  end process work_through;

end architecture rtl;
