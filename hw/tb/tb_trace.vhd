-- SPDX-License-Identifier: MIT
-- Replays a trace (trace_file) through a unit, checks every answer, and writes the time of each call.
--
-- Each block that is handed out is looked up in the bench's own book (owners). With exact_g, addresses and refusals
-- must be those of the file, which coffer-rt's in-band model has made, and so must the headers at the end. Without,
-- the file's addresses are names of blocks, for units whose placement is their own; then a request that the file sees
-- refused may succeed, and one that fails is counted.
--
-- Times are in logic cycles of 5 ns: `find` and `block` as the unit says, `total` from the request till the unit has
-- nothing left to do, `answer` from when the processor wants to ask till it has the block. gap_g < 0: the next call
-- comes when the unit is at rest; else so many cycles after the answer, if the unit listens then. The trace's own gaps
-- come instead unless gaps_g is false.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
  use ieee.math_real.all;
  use std.textio.all;
  use std.env.all;
library work;
  use work.coffer_hw.all;
  use work.owners.all;
  use work.trace_file.all;
  use work.unit_calls.all;
  use work.call_times.all;

entity tb_trace is
  generic (
    trace_g    : string;
    log_g      : string     := "";        -- no name: no log
    unit_g     : string     := "hbs";
    memory_g   : string     := "sdram";   -- or plain: every transfer takes plain_cycles_g
    exact_g    : boolean    := true;
    gap_g      : integer    := -1;
    lead_g     : natural    := 0;         -- sdram_controller's
    plain_g    : positive   := 1;
    free_bit_g : std_ulogic := '0';
    heap_log2_g : natural   := 25;
    -- unit_under_trace's: OHEBS's buffers.
    depth_g       : natural := 0;
    small_depth_g : natural := 0;
    small_to_g    : natural := 7;
    low_g         : integer := -1;
    high_g        : integer := -1;
    -- Marks set by the program, before its first call; negative: none.
    set_low_g  : integer    := -1;
    set_high_g : integer    := -1;
    gaps_g     : boolean    := true;      -- the trace's gaps count
    rcd_g      : positive   := 2;         -- sdram_bank's: timing that the chips do not allow
    rc_g       : positive   := 7;
    refresh_g  : positive   := 1562;
    -- Estranged Buddy refuses what would fit; all others promise not to.
    strands_g  : boolean    := false;
    -- The program writes into its blocks, words that look like headers and links of free blocks, as many a block.
    scribble_g : natural    := 0;
    patience_g : positive   := 100000     -- the most cycles that a call may take
  );
end entity tb_trace;

architecture bench of tb_trace is

  signal clk       : std_ulogic := '0';
  signal rst       : std_ulogic := '1';
  signal ask       : ask_t      := ask_nothing_c;
  signal seen      : seen_t;

  -- At the end, and where its program writes into HBS's blocks, the bench itself uses the memory.
  signal looks, look_req, look_we : std_ulogic := '0';
  signal look_addr, look_wdata    : word_t     := (others => '0');
  signal look_ack                 : std_ulogic;
  signal look_rdata               : word_t;

  -- Words that the unit has moved.
  signal transfers : natural   := 0;

begin

  clk <= not clk after 2500 ps;

  harness : entity work.unit_harness
    generic map (
      unit_g        => unit_g,
      free_bit_g    => free_bit_g,
      heap_log2_g   => heap_log2_g,
      depth_g       => depth_g,
      small_depth_g => small_depth_g,
      small_to_g    => small_to_g,
      low_g         => low_g,
      high_g        => high_g,
      sdram_g       => memory_g = "sdram",
      plain_g       => plain_g,
      lead_g        => lead_g,
      rcd_g         => rcd_g,
      rc_g          => rc_g,
      refresh_g     => refresh_g
    )
    port map (
      clk_i        => clk,
      rst_i        => rst,
      ask_i        => ask,
      seen_o       => seen,
      looks_i      => looks,
      look_req_i   => look_req,
      look_we_i    => look_we,
      look_addr_i  => look_addr,
      look_wdata_i => look_wdata,
      look_ack_o   => look_ack,
      look_rdata_o => look_rdata
    );

  count_transfers : process (clk) is
  begin
    if rising_edge(clk) and seen.ack = '1' then
      transfers <= transfers + 1;
    end if;
  end process count_transfers;

  drive : process is

    type places_t is array (0 to units_c - 1) of integer;

    type places_pointer_t is access places_t;

    file log           : text;
    variable reader    : reader_t;
    variable book      : owners_t;
    variable item      : record_t;
    variable times     : call_t;  -- the last call
    variable looked    : word_t;
    variable heap      : natural := 0;
    variable gap       : natural := 0;
    variable calls     : natural := 0;
    variable refused   : natural := 0;
    variable headers   : natural := 0;
    variable bytes     : natural;
    variable seed_1    : positive := 11;
    variable seed_2    : positive := 12;
    variable allocs    : sums_t  := no_sums_c;
    variable frees     : sums_t  := no_sums_c;
    variable accesses  : sums_t  := no_sums_c;
    -- Without exact_g: where a block of the file is; -1: nowhere.
    variable places    : places_pointer_t;

    procedure fail (message : string) is
    begin
      report reader.place & message
        severity failure;
    end procedure fail;

    -- One call, from the wish to ask.
    procedure call (what : opcode_t; argument : word_t; store : word_t := (others => '0')) is
    begin
      call_unit(clk, ask, seen, what, argument, store, gap_g < 0, reader.place, patience_g, times);
      calls := calls + 1;
    end procedure call;

    -- One that is the bench's own, or a load or a store.
    procedure call_aside (what : opcode_t; argument : word_t; store : word_t := (others => '0')) is
    begin
      call(what, argument, store);
      calls := calls - 1;
    end procedure call_aside;

    procedure note (sums : inout sums_t; letter : character) is
    begin
      add(sums, times);
      if log_g /= "" then
        write_call(log, letter, item.number, times, seen.how);
      end if;
    end procedure note;

    -- One transfer of the bench's own, while the unit rests.
    procedure look (write : std_ulogic; address : word_t; value : word_t := (others => '0')) is
      variable cycles : natural := 0;
    begin
      wait_for_ready(clk, seen, reader.place, patience_g, cycles);
      looks <= '1';
      look_addr <= address;
      look_wdata <= value;
      look_we <= write;
      look_req <= '1';
      wait until rising_edge(clk);
      loop
        wait until rising_edge(clk);
        exit when look_ack = '1';
        cycles := cycles + 1;
        if cycles > patience_g then
          fail("watchdog: the memory does not answer");
        end if;
      end loop;
      look_req <= '0';
      look_we <= '0';
      looked := look_rdata;
      wait until rising_edge(clk);
      looks <= '0';
    end procedure look;

    impure function random (limit : positive) return natural is
      variable number : real;
    begin
      uniform(seed_1, seed_2, number);
      return integer(floor(number * real(limit)));
    end function random;

    procedure scribble (block_address, length : natural) is
      constant kept_c  : call_t := times;
      variable address : word_t;
      variable value   : word_t;
    begin
      for i in 1 to minimum(scribble_g, length / 4 - 1) loop
        address := number(block_address + i * 4);
        if i mod 4 = 0 then
          value := number(16 * 2 ** random(6));
          value(0) := free_bit_g;
        else
          value := number(random(heap / 16) * 16);
        end if;
        if unit_g(1) = 'h' then
          look('1', address, value);
        else
          call_aside(op_store_c, address, value);
        end if;
      end loop;
      times := kept_c;
    end procedure scribble;

    -- A block's address as the file has it: within the heap, behind a header.
    procedure check_address is
    begin
      if unsigned(item.address) < header_bytes_c or unsigned(item.address) >= heap
         or to_integer(unsigned(item.address(3 downto 0))) /= header_bytes_c then
        fail("no block can be at " & to_hstring(item.address));
      end if;
    end procedure check_address;

    procedure run_alloc is
      variable offset : natural;
    begin
      if not exact_g and item.address /= nothing_c then
        check_address;
        if places(to_integer(unsigned(item.address)) / unit_bytes_c) >= 0 then
          fail("the trace gives out what is live: " & to_hstring(item.address));
        end if;
      end if;
      call(op_alloc_c, number(item.number));
      if times.status = status_ok_c then
        if unsigned(times.result) < header_bytes_c or unsigned(times.result) >= heap then
          fail("the block lies outside of the heap: " & to_hstring(times.result));
        end if;
        offset := to_integer(unsigned(times.result)) - header_bytes_c;
        bytes := to_integer(unsigned(block_size(number(item.number), 4)));
        if offset mod bytes /= 0 then
          fail("the block is not aligned to its size: " & to_hstring(times.result));
        end if;
        if exact_g then
          book.take(offset, bytes);
        elsif item.address /= nothing_c then
          book.take(offset, bytes);
          places(to_integer(unsigned(item.address)) / unit_bytes_c) := offset + header_bytes_c;
        end if;
      elsif times.status = status_full_c then
        if times.result /= nothing_c then
          fail("a refusal with an address");
        end if;
        refused := refused + 1;
        bytes := to_integer(unsigned(block_size(number(item.number), 4)));
        if not strands_g and bytes <= heap then
          if book.has_room(bytes, heap) then
            fail("refused, though " & integer'image(bytes) & " bytes are free at a multiple of that");
          end if;
        end if;
        if not exact_g and item.address /= nothing_c then
          places(to_integer(unsigned(item.address)) / unit_bytes_c) := -1;
        end if;
      else
        fail("an allocation ended with status " & to_string(times.status));
      end if;
      if exact_g and times.result /= item.address then
        fail("the model answers " & to_hstring(item.address) & ", the unit " & to_hstring(times.result));
      end if;
      note(allocs, 'a');
      if times.status = status_ok_c then
        scribble(offset, bytes);
      end if;
      -- The file does not know this block: it goes back at once.
      if not exact_g and times.status = status_ok_c and item.address = nothing_c then
        call(op_free_c, times.result);
      end if;
    end procedure run_alloc;

    procedure run_free is
      variable address : word_t;
    begin
      check_address;
      address := item.address;
      if not exact_g then
        if places(to_integer(unsigned(address)) / unit_bytes_c) < 0 then
          return;
        end if;
        address := number(places(to_integer(unsigned(address)) / unit_bytes_c));
        places(to_integer(unsigned(item.address)) / unit_bytes_c) := -1;
      end if;
      item.number := book.size_of(to_integer(unsigned(address)) - header_bytes_c);
      if item.number = 0 then
        fail("the trace frees what is not live: " & to_hstring(item.address));
      end if;
      book.give_back(to_integer(unsigned(address)) - header_bytes_c);
      call(op_free_c, address);
      if times.status /= status_ok_c then
        fail("a free ended with status " & to_string(times.status));
      end if;
      note(frees, 'f');
    end procedure run_free;

    -- Loads of a line, or the store of a word. A store must not touch a header: it lies in a block, behind it.
    procedure run_access is
      variable base    : integer;
      variable length  : natural;
      variable address : natural;
    begin
      if unit_g(1) /= 'o' or exact_g then
        fail("loads and stores go through OHEBS only");
      end if;
      if item.value(31 downto 27) /= "00000" or item.value(1 downto 0) /= "00" then
        fail("no word has this offset: " & to_hstring(item.value));
      end if;
      address := to_integer(unsigned(item.value));
      if item.address = nothing_c then
        if address >= heap then
          fail("no word has this offset: " & to_hstring(item.value));
        end if;
        address := address + heap;
      else
        check_address;
        base := places(to_integer(unsigned(item.address)) / unit_bytes_c);
        -- Refused here, though not by the model: nothing to access.
        if base < 0 and refused /= 0 then
          return;
        end if;
        length := 0;
        if base > 0 then
          length := book.size_of(base - header_bytes_c);
        end if;
        if length = 0 or address + header_bytes_c >= length then
          fail("an access outside of live blocks: " & to_hstring(item.address) & " " & to_hstring(item.value));
        end if;
        address := address + base;
      end if;
      if item.kind = kind_store then
        call_aside(op_store_c, number(address), number(random(heap)));
        add(accesses, times);
      else
        if item.number = 0 or item.number > 64 or 64 mod item.number /= 0 then
          fail("a line has 1, 2, 4 ... 64 words");
        end if;
        address := address - address mod (item.number * 4);
        for i in 0 to item.number - 1 loop
          call_aside(op_load_c, number(address + i * 4));
          add(accesses, times);
        end loop;
      end if;
    end procedure run_access;

    procedure set_marks is
    begin
      for i in 4 to heap_log2_g loop
        call_aside(op_marks_c, number(set_high_g * 65536 + set_low_g * 256 + i));
        if times.status /= status_ok_c then
          fail("the unit does not take these marks: " & integer'image(set_low_g) & ", " & integer'image(set_high_g));
        end if;
      end loop;
    end procedure set_marks;

    -- Header words, as the model has them at the end.
    procedure run_header is
      variable expected : word_t;
    begin
      if unsigned(item.address) >= heap or or_all(item.address(3 downto 0)) = '1' then
        fail("no header can be at " & to_hstring(item.address));
      end if;
      look('0', item.address);
      expected := item.value(31 downto 1) & (item.value(0) xor not free_bit_g);
      if looked /= expected then
        fail("the header is " & to_hstring(looked) & ", not " & to_hstring(expected));
      end if;
      headers := headers + 1;
    end procedure run_header;

    procedure init_heap is
    begin
      if heap /= 0 then
        fail("a second heap");
      end if;
      heap := item.number;
      if set_low_g >= 0 then
        set_marks;
      end if;
      call(op_init_c, number(item.number));
      if times.status /= status_ok_c then
        fail("the unit takes no heap of " & integer'image(item.number) & " bytes");
      end if;
      if not exact_g then
        places := new places_t;
        for i in places_t'range loop
          places(i) := -1;
        end loop;
      end if;
    end procedure init_heap;

  begin
    reader.open_file(trace_g);
    if log_g /= "" then
      file_open(log, log_g, write_mode);
    end if;
    pause(clk, 4);
    rst <= '0';
    pause(clk, 1);

    loop
      reader.next_record(item);
      if heap = 0 and item.kind >= kind_alloc and item.kind <= kind_header then
        fail("the heap's size must come first");
      end if;

      case item.kind is

        when kind_end =>
          exit;

        when kind_policy =>
          if item.policy(1 to 6) /= "knuth " and exact_g then
            fail("this unit's policy is knuth");
          end if;

        when kind_heap =>
          init_heap;

        when kind_min =>
          if item.number /= unit_bytes_c then
            fail("the smallest block has 16 bytes");
          end if;

        when kind_alloc =>
          pause(clk, gap);
          gap := maximum(gap_g, 0);
          run_alloc;

        when kind_free =>
          pause(clk, gap);
          gap := maximum(gap_g, 0);
          run_free;

        when kind_wrong_free =>
          if exact_g then
            call(op_free_c, item.address);
            if times.status /= item.status then
              fail("a wrong free ended with status " & to_string(times.status));
            end if;
          end if;

        when kind_gap =>
          if gaps_g then
            gap := item.number;
          end if;

        when kind_load | kind_store =>
          pause(clk, gap);
          gap := 0;
          run_access;

        when kind_header =>
          if exact_g then
            run_header;
          end if;

      end case;

    end loop;

    if calls < 2 then
      fail("the trace has no call");
    end if;
    tell("alloc find", allocs.count, allocs.find);
    tell("alloc block", allocs.count, allocs.block_time);
    tell("alloc total", allocs.count, allocs.total);
    tell("alloc answer", allocs.count, allocs.answer);
    tell("free total", frees.count, frees.total);
    tell("free answer", frees.count, frees.answer);
    tell("access answer", accesses.count, accesses.answer);
    report "replayed " & integer'image(calls) & " calls: " & integer'image(allocs.count) & " allocations, " &
           integer'image(refused) & " refused, " & integer'image(frees.count) & " frees, " &
           integer'image(headers) & " headers, " & integer'image(book.live_blocks) & " blocks live, " &
           integer'image(accesses.count) & " accesses, " & integer'image(transfers) & " transfers, " &
           time'image(now);
    if log_g /= "" then
      file_close(log);
    end if;
    finish(0);
  end process drive;

end architecture bench;
