-- SPDX-License-Identifier: MIT
-- Reads the project's vectors (rt/vectors/README.md), with four records more: `g CYCLES`, to wait that long before the
-- next call; `x ADDRESS bad|double`, a free that must be refused; `l BLOCK OFFSET WORDS` and `s BLOCK OFFSET`, loads of
-- a cache's line and the store of a word, in a block of the program's or, if BLOCK is ffffffff, in other memory.
-- Whatever is wrong with the file ends the simulation with the number of the line.
library ieee;
  use ieee.std_logic_1164.all;
  use ieee.numeric_std.all;
  use std.textio.all;
library work;
  use work.coffer_hw.all;

package trace_file is

  type kind_t is (kind_policy, kind_heap, kind_min, kind_alloc, kind_free, kind_wrong_free, kind_gap, kind_load,
                  kind_store, kind_header, kind_end);

  type record_t is record
    kind    : kind_t;
    number  : natural;   -- heap, min, alloc: bytes; gap: cycles; load: words
    address : word_t;    -- alloc: the answer; frees, header: where; load, store: the block
    value   : word_t;    -- header: the word; load, store: the offset
    status  : status_t;  -- wrong free: the answer
    policy  : string(1 to 16);
  end record record_t;

  type reader_t is protected

    procedure open_file (name : string);

    procedure next_record (result : inout record_t);

    impure function place return string;

  end protected reader_t;

end package trace_file;

package body trace_file is

  type reader_t is protected body

    constant width_c : positive := 200;

    subtype field_t is string(1 to 16);

    file input       : text;
    variable number  : natural := 0;
    variable name_l  : line;
    variable buf     : string(1 to width_c);  -- the current line
    variable length  : natural := 0;
    variable at      : positive := 1;         -- where the next field begins

    impure function place return string is
    begin
      return name_l.all & ":" & integer'image(number) & ": ";
    end function place;

    procedure fail (message : string) is
    begin
      report place & message
        severity failure;
    end procedure fail;

    procedure next_line is
      variable text_l : line;
    begin
      readline(input, text_l);
      number := number + 1;
      length := text_l.all'length;
      if length > width_c then
        fail("the line is too long");
      end if;
      for i in 1 to length loop
        buf(i) := text_l.all(text_l.all'left + i - 1);
      end loop;
      at := 1;
      deallocate(text_l);
    end procedure next_line;

    procedure open_file (name : string) is
      variable status : file_open_status;
    begin
      name_l := new string'(name);
      file_open(status, input, name, read_mode);
      if status /= open_ok then
        report name & ": cannot be read"
          severity failure;
      end if;
      if endfile(input) then
        fail("the file is empty");
      end if;
      next_line;
      if buf(1 to length) /= "# coffer-rt vectors 1" then
        fail("the first line must be '# coffer-rt vectors 1'");
      end if;
    end procedure open_file;

    -- The next field, filled up with blanks.
    impure function next_field return field_t is
      variable field : field_t := (others => ' ');
      variable count : natural := 0;
    begin
      while at <= length loop
        exit when buf(at) = ' ';
        if count = field_t'length then
          fail("the field is too long");
        end if;
        count := count + 1;
        field(count) := buf(at);
        at := at + 1;
      end loop;
      if count = 0 then
        fail("a field is missing, or more than one blank separates two");
      end if;
      if at < length then
        at := at + 1;
      end if;
      return field;
    end function next_field;

    impure function next_number return natural is
      constant field_c : field_t := next_field;
      variable value   : natural := 0;
    begin
      for i in field_c'range loop
        exit when field_c(i) = ' ';
        if field_c(i) < '0' or field_c(i) > '9' then
          fail("not a decimal number");
        end if;
        if value > 200000000 then
          fail("the number is too large");
        end if;
        value := value * 10 + character'pos(field_c(i)) - character'pos('0');
      end loop;
      return value;
    end function next_number;

    impure function next_word return word_t is
      constant digits_c : string  := "0123456789abcdef";
      constant field_c  : field_t := next_field;
      variable value    : word_t  := (others => '0');
      variable good     : boolean;
    begin
      for i in 1 to 8 loop
        good := false;
        for d in digits_c'range loop
          if field_c(i) = digits_c(d) then
            value := value(27 downto 0) & std_ulogic_vector(to_unsigned(d - digits_c'left, 4));
            good := true;
          end if;
        end loop;
        if not good or field_c(9) /= ' ' then
          fail("eight hexadecimal digits must stand here");
        end if;
      end loop;
      return value;
    end function next_word;

    procedure next_record (result : inout record_t) is
      variable kind : field_t;
    begin
      result.kind := kind_end;
      while result.kind = kind_end and not endfile(input) loop
        next_line;
        if length = 0 then
          fail("an empty line");
        end if;
        if buf(1) /= '#' then
          kind := next_field;
          if kind(1 to 7) = "policy " then
            result.kind := kind_policy;
            result.policy := next_field;
          elsif kind(1 to 5) = "heap " then
            result.kind := kind_heap;
            result.number := next_number;
          elsif kind(1 to 4) = "min " then
            result.kind := kind_min;
            result.number := next_number;
          elsif kind(1 to 2) = "a " then
            result.kind := kind_alloc;
            result.number := next_number;
            result.address := next_word;
          elsif kind(1 to 2) = "f " then
            result.kind := kind_free;
            result.address := next_word;
          elsif kind(1 to 2) = "g " then
            result.kind := kind_gap;
            result.number := next_number;
          elsif kind(1 to 2) = "l " then
            result.kind := kind_load;
            result.address := next_word;
            result.value := next_word;
            result.number := next_number;
          elsif kind(1 to 2) = "s " then
            result.kind := kind_store;
            result.address := next_word;
            result.value := next_word;
          elsif kind(1 to 2) = "h " then
            result.kind := kind_header;
            result.address := next_word;
            result.value := next_word;
          elsif kind(1 to 2) = "x " then
            result.kind := kind_wrong_free;
            result.address := next_word;
            kind := next_field;
            if kind(1 to 4) = "bad " then
              result.status := status_bad_c;
            elsif kind(1 to 7) = "double " then
              result.status := status_double_c;
            else
              fail("'bad' or 'double' must stand here");
            end if;
          else
            fail("no such record");
          end if;
          if at <= length then
            fail("something stands behind the last field");
          end if;
        end if;
      end loop;
    end procedure next_record;

  end protected body reader_t;

end package body trace_file;
