-- SPDX-License-Identifier: MIT
-- The allocator as a window of registers, for any bus: doc/registers.md has the map. A bus's slave gives it one access
-- at a time; a call's register starts the call, and the answer is read when it is there.
--
-- Between the allocator and the memory's master it keeps the heap's place in memory (base_o), and what is to happen
-- when memory refuses a transfer: from then on the lists cannot be trusted, so every call is refused until a heap is
-- begun anew.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
library work;
  use work.coffer_hw.all;

entity register_face is
  generic (
    -- What the register SHAPE shows.
    hbs_g         : boolean := false;
    min_log2_g    : natural := 4;
    heap_log2_g   : natural := 25;
    fast_return_g : boolean := true;
    posted_g      : boolean := false;
    recombine_g   : boolean := false
  );
  port (
    clk_i      : in    std_ulogic;
    rst_i      : in    std_ulogic;
    -- An access of the bus's. It stays until ack_o, or is given up before.
    sel_i      : in    std_ulogic;
    we_i       : in    std_ulogic;
    addr_i     : in    std_ulogic_vector(7 downto 0);
    strobes_i  : in    std_ulogic_vector(3 downto 0);
    wdata_i    : in    word_t;
    ack_o      : out   std_ulogic;
    err_o      : out   std_ulogic;
    rdata_o    : out   word_t;
    -- The allocator.
    unit_rst_o : out   std_ulogic;
    op_o       : out   opcode_t;
    data_o     : out   word_t;
    ready_i    : in    std_ulogic;
    done_i     : in    std_ulogic;
    status_i   : in    status_t;
    result_i   : in    word_t;
    late_i     : in    status_t;
    -- The memory's master.
    base_o     : out   word_t;
    hold_o     : out   std_ulogic;  -- begin no transfer
    still_i    : in    std_ulogic;  -- none is under way
    fault_i    : in    std_ulogic   -- one has been refused
  );
end entity register_face;

architecture rtl of register_face is

  constant shape_c : word_t := shape(hbs_g, min_log2_g, heap_log2_g, fast_return_g, posted_g, recombine_g);

  -- Of a call: none; to be given to the allocator; given; a close, which waits for memory.
  type call_t is (none, given_soon, given, closing);

  signal call    : call_t;
  signal op      : opcode_t;
  signal data    : word_t;
  signal status  : status_t;  -- of the last call
  signal answer  : word_t;
  signal late    : status_t;
  signal fault   : std_ulogic;
  signal fresh   : std_ulogic;  -- a fault since an init was given: the new heap's
  signal heap    : word_t;    -- its size; zeros: there is none
  signal base    : word_t;
  signal waits   : std_ulogic;
  signal ack     : std_ulogic;

  -- The calls' registers by what they ask of the allocator.
  function op_of (number : natural) return opcode_t is
  begin

    case number is

      when reg_init_c => return op_init_c;
      when reg_alloc_c => return op_alloc_c;
      when reg_free_c => return op_free_c;
      when reg_marks_c => return op_marks_c;
      when others => return op_none_c;

    end case;

  end function op_of;

begin

  ack_o      <= ack;
  base_o     <= base;
  op_o       <= op when call = given_soon else op_none_c;
  data_o     <= data;
  hold_o     <= '1' when call = closing else '0';
  unit_rst_o <= '1' when rst_i = '1' or (call = closing and still_i = '1') else '0';

  run : process (clk_i) is

    procedure finish (error : std_ulogic) is
    begin
      ack   <= '1';
      err_o <= error;
    end procedure finish;

    procedure answer_call (how : status_t; value : word_t) is
    begin
      call   <= none;
      status <= how;
      answer <= value;
    end procedure answer_call;

    -- One access. A call that must wait for the one before leaves without an answer, and is looked at again.
    procedure write_register (number : natural) is
    begin
      if strobes_i = "0000" then
        finish('0');
      elsif number = reg_control_c then
        if strobes_i(0) = '1' then
          waits <= wdata_i(0);
        end if;
        finish('0');
      elsif number = reg_late_c then
        late <= status_ok_c;
        finish('0');
      elsif number = reg_base_c then
        -- Not under a heap that lives there.
        if or_all(heap) = '0' and call = none then
          for i in strobes_i'range loop
            if strobes_i(i) = '1' then
              base(8 * i + 7 downto 8 * i) <= wdata_i(8 * i + 7 downto 8 * i);
            end if;
          end loop;
          base(1 downto 0) <= "00";
          finish('0');
        else
          finish('1');
        end if;
      elsif op_of(number) = op_none_c and number /= reg_close_c then
        finish('1');
      elsif strobes_i /= "1111" then
        finish('1');
      elsif call /= none then
        if waits = '0' then
          finish('1');
        end if;
      else
        finish('0');
        op <= op_of(number);
        if number = reg_close_c then
          call <= closing;
        elsif fault = '1' and number /= reg_init_c then
          answer_call(status_fault_c, nothing_c);
        else
          call <= given_soon;
        end if;
        if number = reg_free_c then
          data <= std_ulogic_vector(unsigned(wdata_i) - unsigned(base));
        else
          data <= wdata_i;
        end if;
      end if;
    end procedure write_register;

    procedure read_register (number : natural) is
    begin
      rdata_o <= (others => '0');
      if number = reg_answer_c and waits = '1' and call /= none then
        null;
      else
        finish('0');

        case number is

          when reg_id_c =>
            rdata_o <= register_id_c;

          when reg_shape_c =>
            rdata_o <= shape_c;

          when reg_control_c =>
            rdata_o(0) <= waits;

          when reg_base_c =>
            rdata_o <= base;

          when reg_status_c =>
            if call /= none then
              rdata_o(0) <= '1';
            end if;
            rdata_o(6 downto 4) <= status;
            rdata_o(8) <= fault;

          when reg_answer_c =>
            rdata_o <= answer;

          when reg_late_c =>
            rdata_o(2 downto 0) <= late;

          when reg_heap_c =>
            rdata_o <= heap;

          when others =>
            finish('1');

        end case;

      end if;
    end procedure read_register;

    variable number : natural range 0 to 63;

  begin
    if rising_edge(clk_i) then
      ack <= '0';

      -- What happens below to the same access comes later and wins.
      if fault_i = '1' then
        fault <= '1';
        fresh <= '1';
      end if;
      if late_i /= status_ok_c and late = status_ok_c then
        late <= late_i;
      end if;

      if call = given_soon and ready_i = '1' then
        call  <= given;
        fresh <= '0';
      end if;
      if call = given and done_i = '1' then
        if op = op_init_c and status_i = status_ok_c then
          heap  <= data;
          fault <= fresh or fault_i;
          answer_call(status_ok_c, nothing_c);
          if fresh = '1' or fault_i = '1' then
            status <= status_fault_c;
          end if;
        elsif op /= op_init_c and (fault = '1' or fault_i = '1') then
          answer_call(status_fault_c, nothing_c);
        elsif op = op_alloc_c and status_i = status_ok_c then
          answer_call(status_ok_c, std_ulogic_vector(unsigned(result_i) + unsigned(base)));
        else
          answer_call(status_i, nothing_c);
        end if;
      end if;
      if call = closing and still_i = '1' then
        heap  <= (others => '0');
        fault <= '0';
        late  <= status_ok_c;
        answer_call(status_ok_c, nothing_c);
      end if;

      -- The cycle of the answer still shows the old access.
      number := to_integer(unsigned(addr_i(7 downto 2)));
      if sel_i = '1' and ack = '0' then
        if we_i = '1' then
          write_register(number);
        else
          read_register(number);
        end if;
      end if;

      if rst_i = '1' then
        call   <= none;
        op     <= op_none_c;
        status <= status_ok_c;
        answer <= nothing_c;
        late   <= status_ok_c;
        fault  <= '0';
        fresh  <= '0';
        heap   <= (others => '0');
        base   <= (others => '0');
        waits  <= '0';
        ack    <= '0';
      end if;
    end if;
  end process run;

end architecture rtl;
