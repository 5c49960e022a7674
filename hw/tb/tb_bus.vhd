-- SPDX-License-Identifier: MIT
-- vunit: run_all_in_same_sim
-- The bus faces: the map of registers, what is refused, calls polled and waited for, handshakes in every legal order,
-- memory that lets its master wait, and memory that refuses. The same tests run over AXI4-Lite and Wishbone.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library vunit_lib;
  context vunit_lib.vunit_context;
library work;
  use work.coffer_hw.all;
  use work.owners.all;

entity tb_bus is
  generic (
    runner_cfg  : string;
    axi_g       : boolean := true;  -- else Wishbone
    pipelined_g : boolean := false;
    posted_g    : boolean := false;
    hbs_g       : boolean := false
  );
end entity tb_bus;

architecture bench of tb_bus is

  constant heap_log2_c : positive := 12;
  constant heap_c      : positive := 2 ** heap_log2_c;
  constant base_c      : word_t   := x"8000000C";

  signal clk      : std_ulogic := '0';
  signal rst      : std_ulogic := '1';
  signal write    : std_ulogic := '0';
  signal read     : std_ulogic := '0';
  signal address  : std_ulogic_vector(7 downto 0);
  signal strobes  : std_ulogic_vector(3 downto 0);
  signal value    : word_t;
  signal order    : natural range 0 to 2 := 0;
  signal between  : natural := 0;
  signal taken    : natural := 0;  -- cycles before an answer is taken
  signal given_up : natural := 0;
  signal write_done, write_err, read_done, read_err : std_ulogic;
  signal got      : word_t;
  signal deny     : std_ulogic := '0';
  signal window   : word_t     := base_c;
  signal stores    : std_ulogic := '0';  -- the program stores a zero
  signal stored_at : word_t;

begin

  clk <= not clk after 5 ns;

  harness : entity work.bus_harness
    generic map (
      axi_g       => axi_g,
      pipelined_g => pipelined_g,
      posted_g    => posted_g,
      hbs_g       => hbs_g,
      heap_log2_g => heap_log2_c
    )
    port map (
      clk_i        => clk,
      rst_i        => rst,
      write_i      => write,
      read_i       => read,
      addr_i       => address,
      strobes_i    => strobes,
      wdata_i      => value,
      order_i      => order,
      between_i    => between,
      taken_i      => taken,
      give_up_i    => given_up,
      write_done_o => write_done,
      write_err_o  => write_err,
      read_done_o  => read_done,
      read_err_o   => read_err,
      rdata_o      => got,
      deny_i       => deny,
      window_i     => window,
      bytes_i      => heap_c,
      look_i       => stores,
      look_we_i    => '1',
      look_addr_i  => stored_at
    );

  main : process is

    constant ok_c  : boolean := true;
    constant err_c : boolean := false;

    variable book  : owners_t;
    variable saved : word_t;

    -- VUnit's watchdog is the last resort; this one says which access it was.
    procedure wait_for (signal done : in std_ulogic; what : string) is
    begin
      wait until rising_edge(clk) and done = '1' for 200 us;
      check(done = '1', what & " of register " & to_hstring(address) & " has no end");
    end procedure wait_for;

    procedure poke (register_c : natural; data : word_t; expected : boolean := ok_c;
                    lanes : std_ulogic_vector(3 downto 0) := "1111") is
    begin
      address <= std_ulogic_vector(to_unsigned(4 * register_c, 8));
      value <= data;
      strobes <= lanes;
      write <= '1';
      wait until rising_edge(clk);
      write <= '0';
      wait_for(write_done, "the write");
      check_equal(write_err = '0', expected, "write to register " & integer'image(register_c));
    end procedure poke;

    procedure peek (register_c : natural; expected : boolean := ok_c) is
    begin
      address <= std_ulogic_vector(to_unsigned(4 * register_c, 8));
      -- Meaningless in a read.
      strobes <= "0110";
      read <= '1';
      wait until rising_edge(clk);
      read <= '0';
      wait_for(read_done, "the read");
      check_equal(read_err = '0', expected, "read of register " & integer'image(register_c));
    end procedure peek;

    procedure expect (register_c : natural; data : word_t) is
    begin
      peek(register_c);
      check_equal(got, data, "register " & integer'image(register_c));
    end procedure expect;

    function number (what : natural) return word_t is
    begin
      return std_ulogic_vector(to_unsigned(what, 32));
    end function number;

    -- Polls till the call is over.
    procedure finish (how : status_t) is
    begin
      for i in 1 to 5000 loop
        peek(reg_status_c);
        exit when got(0) = '0';
      end loop;
      check_equal(got(0), '0', "busy for too long");
      check_equal(got(6 downto 4), how, "status");
    end procedure finish;

    procedure call (register_c : natural; argument : word_t; how : status_t := status_ok_c) is
    begin
      poke(register_c, argument);
      finish(how);
      if register_c /= reg_alloc_c or how /= status_ok_c then
        expect(reg_answer_c, nothing_c);
      end if;
    end procedure call;

    procedure note_block (bytes : natural) is
    begin
      book.take(to_integer(unsigned(got) - unsigned(window)) - 4, to_integer(unsigned(block_size(number(bytes), 4))));
    end procedure note_block;

    procedure alloc (bytes : natural) is
    begin
      call(reg_alloc_c, number(bytes));
      peek(reg_answer_c);
      note_block(bytes);
    end procedure alloc;

    procedure free (block_address : word_t) is
    begin
      call(reg_free_c, block_address);
      book.give_back(to_integer(unsigned(block_address) - unsigned(window)) - 4);
    end procedure free;

    procedure open_heap is
    begin
      poke(reg_base_c, window);
      call(reg_init_c, number(heap_c));
      expect(reg_heap_c, number(heap_c));
      book.forget;
    end procedure open_heap;

    variable blocks : words_t(0 to 15);

  begin
    test_runner_setup(runner, runner_cfg);
    while test_suite loop
      deny <= '0';
      window <= base_c;
      order <= 0;
      between <= 0;
      taken <= 0;
      given_up <= 0;
      -- No transfer may be under way when the unit is reset.
      for i in 1 to 2000 loop
        wait until rising_edge(clk);
      end loop;
      rst <= '1';
      for i in 1 to 4 loop
        wait until rising_edge(clk);
      end loop;
      rst <= '0';
      wait until rising_edge(clk);
      book.forget;
      if run("registers say what the unit is") then
        expect(reg_id_c, x"C0FFE401");
        expect(reg_shape_c, shape(hbs_g, 4, heap_log2_c, true, posted_g, true));
        expect(reg_heap_c, number(0));
        expect(reg_status_c, number(0));
        expect(reg_answer_c, nothing_c);
      elsif run("what is not there, or only to be read or written, is refused") then
        for i in 0 to 63 loop
          peek(i, expected => i <= reg_heap_c);
          if i > reg_close_c or i < reg_control_c or i = reg_status_c or i = reg_answer_c or i = reg_heap_c then
            poke(i, number(1), err_c);
          end if;
        end loop;
        -- None of these was a call.
        expect(reg_status_c, number(0));
        expect(reg_heap_c, number(0));
      elsif run("partial writes change their bytes of settings, and start no call") then
        poke(reg_base_c, x"11223344");
        for lanes in 0 to 15 loop
          poke(reg_base_c, x"11223344");
          poke(reg_base_c, x"AABBCCDD", ok_c, std_ulogic_vector(to_unsigned(lanes, 4)));
          peek(reg_base_c);
          for i in 0 to 3 loop
            saved := x"AABBCCDC" when to_unsigned(lanes, 4)(i) = '1' else x"11223344";
            check_equal(got(8 * i + 7 downto 8 * i), saved(8 * i + 7 downto 8 * i));
          end loop;
        end loop;
        poke(reg_control_c, number(1), ok_c, "1110");
        expect(reg_control_c, number(0));
        for lanes in 1 to 14 loop
          poke(reg_init_c, number(heap_c), err_c, std_ulogic_vector(to_unsigned(lanes, 4)));
          poke(reg_close_c, number(heap_c), err_c, std_ulogic_vector(to_unsigned(lanes, 4)));
        end loop;
        poke(reg_init_c, number(heap_c), ok_c, "0000");
        expect(reg_status_c, number(0));
        expect(reg_heap_c, number(0));
      elsif run("calls are answered, polled") then
        call(reg_alloc_c, number(8), status_closed_c);
        call(reg_free_c, base_c, status_closed_c);
        poke(reg_base_c, window);
        call(reg_init_c, number(heap_c - 1), status_bad_c);
        expect(reg_heap_c, number(0));
        -- Neither under a heap that is just beginning, nor under one that lives there.
        poke(reg_init_c, number(heap_c));
        poke(reg_base_c, number(0), err_c);
        finish(status_ok_c);
        poke(reg_base_c, number(0), err_c);
        expect(reg_base_c, base_c);
        for i in blocks'range loop
          alloc(20 * i);
          check_equal(got(3 downto 0), std_ulogic_vector'("0000"), "a base of 12 beyond 16 aligns all blocks");
          blocks(i) := got;
        end loop;
        call(reg_alloc_c, number(heap_c), status_full_c);
        for i in blocks'range loop
          free(blocks((i * 5) mod 16));
        end loop;
        if not posted_g then
          call(reg_free_c, blocks(0), status_double_c);
          call(reg_free_c, plus(blocks(0), 4), status_bad_c);
        end if;
        call(reg_free_c, number(4), status_bad_c);
        call(reg_free_c, plus(base_c, heap_c + 4), status_bad_c);
        if not hbs_g then
          call(reg_marks_c, x"00060204");
          call(reg_marks_c, x"00020604", status_bad_c);
        end if;
        alloc(heap_c - 4);
      elsif run("a call while one is being served is refused, or waits") then
        open_heap;
        deny <= '0';
        poke(reg_alloc_c, number(8));
        -- It cuts the whole heap: longer than the next write takes to come, but not always.
        for i in 1 to 50 loop
          address <= std_ulogic_vector(to_unsigned(4 * reg_alloc_c, 8));
          value <= number(8);
          strobes <= "1111";
          write <= '1';
          wait until rising_edge(clk);
          write <= '0';
          wait_for(write_done, "the write");
          if write_err = '0' then
            finish(status_ok_c);
            peek(reg_answer_c);
            note_block(8);
          end if;
        end loop;
        check(book.live_blocks > 1, "some are taken");
        poke(reg_close_c, number(0));
        finish(status_ok_c);
        book.forget;
        poke(reg_control_c, number(1));
        open_heap;
        for i in blocks'range loop
          -- Nothing is polled; the second one's answer is the one that is read.
          poke(reg_alloc_c, number(8));
          poke(reg_alloc_c, number(100));
          peek(reg_answer_c);
          note_block(100);
          poke(reg_free_c, got);
          book.give_back(to_integer(unsigned(got) - unsigned(window)) - 4);
        end loop;
        finish(status_ok_c);
      elsif run("handshakes in every order") then
        for o in 0 to 2 loop
          for gap in 0 to 3 loop
            for late in 0 to 3 loop
              order <= o;
              between <= gap;
              taken <= late;
              wait until rising_edge(clk);
              poke(reg_base_c, number(4096 * o + 256 * gap + 16 * late));
              expect(reg_base_c, number(4096 * o + 256 * gap + 16 * late));
              poke(reg_id_c, number(1), err_c);
              peek(40, err_c);
            end loop;
          end loop;
        end loop;
      elsif run("an answer that is not taken holds up nothing in the other direction") and axi_g then
        -- A read that is taken only after a write, and a write after a read.
        poke(reg_base_c, x"00001234");
        taken <= 60;
        wait until rising_edge(clk);
        address <= std_ulogic_vector(to_unsigned(4 * reg_base_c, 8));
        read <= '1';
        wait until rising_edge(clk);
        read <= '0';
        for i in 1 to 10 loop
          wait until rising_edge(clk);
        end loop;
        taken <= 0;
        wait until rising_edge(clk);
        poke(reg_base_c, x"00005678");
        check_equal(read_done, '0');
        wait_for(read_done, "the read");
        check_equal(got, std_ulogic_vector'(x"00001234"));
        -- Both at the same time, again and again.
        for i in 1 to 20 loop
          address <= std_ulogic_vector(to_unsigned(4 * reg_base_c, 8));
          value <= number(i * 4);
          strobes <= "1111";
          read <= '1';
          write <= '1';
          order <= i mod 3;
          wait until rising_edge(clk);
          read <= '0';
          write <= '0';
          for cycle in 1 to 30 loop
            wait until rising_edge(clk);
            if read_done = '1' then
              check(unsigned(got) = i * 4 or unsigned(got) = i * 4 - 4 or i = 1, "one of the two");
            end if;
          end loop;
          expect(reg_base_c, number(i * 4));
        end loop;
      elsif run("an access that is given up leaves nothing behind") and not axi_g then
        poke(reg_control_c, number(1));
        open_heap;
        poke(reg_alloc_c, number(8));
        given_up <= 3;
        wait until rising_edge(clk);
        -- The first one may just be answered; the second waits for the first.
        address <= std_ulogic_vector(to_unsigned(4 * reg_answer_c, 8));
        read <= '1';
        wait until rising_edge(clk);
        read <= '0';
        wait_for(read_done, "the read");
        given_up <= 0;
        wait until rising_edge(clk);
        peek(reg_answer_c);
        note_block(8);
        expect(reg_base_c, base_c);
      elsif run("memory that refuses closes the heap, and nothing hangs") then
        open_heap;
        for i in blocks'range loop
          alloc(12);
          blocks(i) := got;
        end loop;
        deny <= '1';
        for i in blocks'range loop
          -- With Fast Return an allocation may be answered before its header is refused.
          poke(reg_free_c, blocks(i));
          for tries in 1 to 5000 loop
            peek(reg_status_c);
            exit when got(0) = '0';
          end loop;
          check_equal(got(0), '0', "busy for too long");
        end loop;
        call(reg_alloc_c, number(12), status_fault_c);
        expect(reg_status_c, x"00000150");
        deny <= '0';
        -- What it has read in the meantime is not to be trusted.
        call(reg_alloc_c, number(12), status_fault_c);
        call(reg_free_c, blocks(0), status_fault_c);
        call(reg_init_c, number(heap_c));
        book.forget;
        expect(reg_status_c, number(0));
        for i in blocks'range loop
          alloc(12);
        end loop;
      elsif run("a write that memory refuses is told, though the call had its answer") then
        open_heap;
        alloc(12);
        -- Of this call, memory refuses its header's write, or an earlier transfer; of the next, none.
        deny <= '1';
        poke(reg_alloc_c, number(12));
        for i in 1 to 500 loop
          wait until rising_edge(clk);
        end loop;
        deny <= '0';
        peek(reg_status_c);
        check_equal(got(8), '1', "memory has refused");
        call(reg_alloc_c, number(12), status_fault_c);
        if hbs_g then
          -- INIT lists the whole heap: that too may be refused.
          deny <= '1';
          call(reg_init_c, number(heap_c), status_fault_c);
          deny <= '0';
          call(reg_alloc_c, number(12), status_fault_c);
        end if;
        call(reg_init_c, number(heap_c));
        expect(reg_status_c, number(0));
      elsif run("a heap is closed in the midst of its work, and begun elsewhere") then
        for round in 1 to 12 loop
          open_heap;
          for i in blocks'range loop
            alloc(12);
            blocks(i) := got;
          end loop;
          for i in blocks'range loop
            free(blocks(i));
          end loop;
          -- The answer comes before the rest of its work, which the heap's end cuts off wherever it is.
          alloc(12);
          for i in 1 to 3 * round loop
            wait until rising_edge(clk);
          end loop;
          poke(reg_close_c, number(0));
          finish(status_ok_c);
          -- Nothing reaches the old place any more: the memory would say so.
          window <= std_ulogic_vector(unsigned(window) + heap_c);
          wait until rising_edge(clk);
          expect(reg_heap_c, number(0));
          call(reg_alloc_c, number(8), status_closed_c);
        end loop;
      elsif run("a posted free that was wrong is told later") and posted_g then
        open_heap;
        alloc(12);
        saved := got;
        free(saved);
        expect(reg_late_c, number(0));
        call(reg_free_c, saved);
        for i in 1 to 100 loop
          peek(reg_late_c);
          exit when or_all(got) = '1';
        end loop;
        expect(reg_late_c, x"00000003");
        -- Within a block, which only memory can tell, and otherwise than the first one. Old headers may lie there.
        alloc(100);
        stored_at <= plus(got, 12);
        stores <= '1';
        wait until rising_edge(clk);
        stores <= '0';
        call(reg_free_c, plus(got, 16));
        alloc(12);
        -- The first one stays till it has been seen.
        expect(reg_late_c, x"00000003");
        poke(reg_late_c, number(0));
        expect(reg_late_c, number(0));
      end if;
    end loop;
    test_runner_cleanup(runner);
  end process main;

  test_runner_watchdog(runner, 50 ms);

end architecture bench;
