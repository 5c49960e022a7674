-- SPDX-License-Identifier: MIT
-- Which bytes of the heap are handed out: the benches' own book. A block that is handed out twice, or overlaps one, or
-- lies outside, fails at once.
package owners is

  type owners_t is protected

    procedure take (block_address, bytes : natural);

    -- Returns the size that the block was taken with; 0 if no live block begins there.
    impure function size_of (block_address : natural) return natural;

    procedure give_back (block_address : natural);

    -- Nothing is live any more.
    procedure forget;

    -- Is there a block of so many bytes, at a multiple of its size, of which no byte is live?
    impure function has_room (bytes, heap : positive) return boolean;

    impure function live_bytes return natural;

    impure function live_blocks return natural;

  end protected owners_t;

  -- The smallest block, which all of them are multiples of.
  constant unit_bytes_c : positive := 16;
  constant units_c      : positive := 64 * 1024 * 1024 / unit_bytes_c;

end package owners;

package body owners is

  type owners_t is protected body

    type bits_t is array (natural range <>) of boolean;

    type sizes_t is array (natural range <>) of natural;

    type bits_pointer_t is access bits_t;

    type sizes_pointer_t is access sizes_t;

    variable taken  : bits_pointer_t  := new bits_t(0 to units_c - 1);
    variable sizes  : sizes_pointer_t := new sizes_t(0 to units_c - 1);
    variable bytes_live  : natural := 0;
    variable blocks_live : natural := 0;

    procedure take (block_address, bytes : natural) is
      constant first_c : natural := block_address / unit_bytes_c;
      constant count_c : natural := bytes / unit_bytes_c;
    begin
      for i in first_c to first_c + count_c - 1 loop
        assert not taken(i)
          report "handed out twice: byte " & integer'image(i * unit_bytes_c) & " in the block of " &
                 integer'image(bytes) & " at " & integer'image(block_address)
          severity failure;
        taken(i) := true;
      end loop;
      sizes(first_c) := bytes;
      bytes_live := bytes_live + bytes;
      blocks_live := blocks_live + 1;
    end procedure take;

    impure function size_of (block_address : natural) return natural is
    begin
      return sizes(block_address / unit_bytes_c);
    end function size_of;

    procedure give_back (block_address : natural) is
      constant first_c : natural := block_address / unit_bytes_c;
    begin
      assert sizes(first_c) /= 0
        report "the bench frees what is not live, at " & integer'image(block_address)
        severity failure;
      for i in first_c to first_c + sizes(first_c) / unit_bytes_c - 1 loop
        taken(i) := false;
      end loop;
      bytes_live := bytes_live - sizes(first_c);
      blocks_live := blocks_live - 1;
      sizes(first_c) := 0;
    end procedure give_back;

    impure function has_room (bytes, heap : positive) return boolean is
      constant run_c : positive := bytes / unit_bytes_c;
      variable is_free : boolean;
    begin
      for first in 0 to heap / bytes - 1 loop
        is_free := true;
        for i in first * run_c to (first + 1) * run_c - 1 loop
          is_free := is_free and not taken(i);
          exit when not is_free;
        end loop;
        if is_free then
          return true;
        end if;
      end loop;
      return false;
    end function has_room;

    procedure forget is
    begin
      for i in 0 to units_c - 1 loop
        if sizes(i) /= 0 then
          give_back(i * unit_bytes_c);
        end if;
      end loop;
    end procedure forget;

    impure function live_bytes return natural is
    begin
      return bytes_live;
    end function live_bytes;

    impure function live_blocks return natural is
    begin
      return blocks_live;
    end function live_blocks;

  end protected body owners_t;

end package body owners;
