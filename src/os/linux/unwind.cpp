// SPDX-License-Identifier: MIT
// What the table of an object says about the caller of a function: a Row.
#include "os/linux/unwind.hpp"

#include <string.h>

#include "os/linux/table_bytes.hpp"

#if defined(__x86_64__)

namespace coffer {
namespace COFFER_OS_NAMESPACE {

namespace {

struct Description {
  const u8* start_program;  // the rules of the function's first instruction ...
  const u8* start_end;
  const u8* program;  // ... and how they change
  const u8* end;
  uptr begin;
  usize bytes;
  u64 code_factor;
  i64 data_factor;
};

// Reads the entry of a function and the one that it shares with others.
bool describe(const u8* entry, Description* to) {
  constexpr usize kAnything = usize{1} << 30;
  Bytes head(entry, entry + kAnything);
  const u32 length = head.fixed<u32>();
  if (length == 0 || length >= 0xfffffff0) return false;
  Bytes own(head.at(), head.at() + length);
  const u8* shared_at = own.at() - own.fixed<u32>();
  Bytes shared_head(shared_at, shared_at + kAnything);
  const u32 shared_length = shared_head.fixed<u32>();
  if (shared_length == 0 || shared_length >= 0xfffffff0) return false;
  Bytes shared(shared_head.at(), shared_head.at() + shared_length);
  if (shared.fixed<u32>() != 0) return false;
  const u8 version = shared.fixed<u8>();
  if (version != 1 && version != 3) return false;
  const u8* letters = shared.at();
  while (shared.fixed<u8>() != 0) {
  }
  to->code_factor = shared.uleb();
  to->data_factor = shared.sleb();
  const u64 return_register = version == 1 ? shared.fixed<u8>() : shared.uleb();
  if (shared.bad() || return_register != kReturn || letters[0] != 'z') return false;
  const u64 more = shared.uleb();
  Bytes data(shared.at(), shared.at() + more);
  shared.skip(more);
  u8 encoding = 0;
  for (const u8* letter = letters + 1; *letter != 0; ++letter) {
    if (*letter == 'R') {
      encoding = data.fixed<u8>();
    } else if (*letter == 'P') {
      const u8 routine = data.fixed<u8>();
      data.pointer(routine & 0x7f);
    } else if (*letter == 'L') {
      data.fixed<u8>();
    } else {
      return false;  // 'S': a signal's frame, which the walk does not pass
    }
  }
  to->begin = own.pointer(encoding);
  to->bytes = own.pointer(encoding & 0x0f);
  if (own.bad() || shared.bad() || data.bad()) return false;
  own.skip(own.uleb());
  to->start_program = shared.at();
  to->start_end = shared_head.at() + shared_length;
  to->program = own.at();
  to->end = head.at() + length;
  return !own.bad();
}

// The entry of the function that pc may lie in.
const u8* find_entry(const u8* table, uptr pc) {
  const i64 wanted = static_cast<i64>(pc - reinterpret_cast<uptr>(table));
  u32 low = 0, high = entry_count(table);
  while (low < high) {
    const u32 middle = low + (high - low) / 2;
    i32 start;
    memcpy(&start, entry_row(table, middle), sizeof start);
    if (start <= wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return nullptr;
  i32 offset;
  memcpy(&offset, entry_row(table, low - 1) + 4, sizeof offset);
  return table + offset;
}

struct Machine {
  Row row;
  Row start;
  Row saved[4];
  u32 depth;
};

void set_rule(Row& row, u64 number, Rule rule, i64 offset) {
  if (number >= kRegisters) return;
  row.rule[number] = rule;
  row.offset[number] = offset;
}

// One instruction that is not of the three short forms. false: it is not known.
bool step_long(u8 code, Bytes& bytes, const Description& of, Machine& m, uptr* location) {
  Row& row = m.row;
  switch (code) {
    case 0x00:  // nop
      return true;
    case 0x02:  // advance_loc1, 2, 4
      *location += bytes.fixed<u8>() * of.code_factor;
      return true;
    case 0x03:
      *location += bytes.fixed<u16>() * of.code_factor;
      return true;
    case 0x04:
      *location += bytes.fixed<u32>() * of.code_factor;
      return true;
    case 0x05:    // offset_extended
    case 0x11: {  // offset_extended_sf
      const u64 number = bytes.uleb();
      const i64 offset = code == 0x05 ? static_cast<i64>(bytes.uleb()) : bytes.sleb();
      set_rule(row, number, Rule::at_offset, offset * of.data_factor);
      return true;
    }
    case 0x06: {  // restore_extended
      const u64 number = bytes.uleb();
      if (number < kRegisters) set_rule(row, number, m.start.rule[number], m.start.offset[number]);
      return true;
    }
    case 0x07:  // undefined
      set_rule(row, bytes.uleb(), Rule::undefined, 0);
      return true;
    case 0x08:  // same_value
      set_rule(row, bytes.uleb(), Rule::same, 0);
      return true;
    case 0x09: {  // register
      const u64 number = bytes.uleb();
      set_rule(row, number, Rule::in_register, static_cast<i64>(bytes.uleb()));
      return true;
    }
    case 0x0a:  // remember_state
      if (m.depth == sizeof m.saved / sizeof m.saved[0]) return false;
      m.saved[m.depth++] = row;
      return true;
    case 0x0b:  // restore_state
      if (m.depth == 0) return false;
      row = m.saved[--m.depth];
      return true;
    case 0x0c:  // def_cfa
      row.cfa_register = static_cast<u32>(bytes.uleb());
      row.cfa_offset = static_cast<i64>(bytes.uleb());
      row.cfa_expression = nullptr;
      return true;
    case 0x0d:  // def_cfa_register
      row.cfa_register = static_cast<u32>(bytes.uleb());
      row.cfa_expression = nullptr;
      return true;
    case 0x0e:  // def_cfa_offset
      row.cfa_offset = static_cast<i64>(bytes.uleb());
      return true;
    case 0x0f:  // def_cfa_expression
      row.cfa_expression = bytes.at();
      bytes.skip(bytes.uleb());
      return true;
    case 0x10:    // expression
    case 0x16: {  // val_expression
      const u64 number = bytes.uleb();
      set_rule(row, number, Rule::expression, 0);
      bytes.skip(bytes.uleb());
      return true;
    }
    case 0x2e:  // GNU_args_size
      bytes.uleb();
      return true;
    default:
      return false;
  }
}

bool run(const u8* program, const u8* end, const Description& of, uptr pc, Machine& m) {
  Bytes bytes(program, end);
  uptr location = of.begin;
  while (bytes.more() && location <= pc) {
    const u8 code = bytes.fixed<u8>();
    const u8 low = code & 0x3f;
    switch (code >> 6) {
      case 1:  // advance_loc
        location += low * of.code_factor;
        break;
      case 2:  // offset
        set_rule(m.row, low, Rule::at_offset, static_cast<i64>(bytes.uleb()) * of.data_factor);
        break;
      case 3:  // restore
        if (low < kRegisters) set_rule(m.row, low, m.start.rule[low], m.start.offset[low]);
        break;
      default:
        if (!step_long(code, bytes, of, m, &location)) return false;
        break;
    }
    if (bytes.bad()) return false;
  }
  return true;
}

}  // namespace

u32 entry_count(const u8* table) {
  constexpr u8 kPointer = 0x1b, kCount = 0x03, kSorted = 0x3b;
  if (table[0] != 1 || table[1] != kPointer || table[2] != kCount || table[3] != kSorted) return 0;
  u32 count;
  memcpy(&count, table + 8, sizeof count);
  return count;
}

Entry find_row(const u8* table, uptr pc, Row* row) {
  if (entry_count(table) == 0) return Entry::unknown;
  const u8* entry = find_entry(table, pc);
  if (entry == nullptr) return Entry::none;
  Description description;
  if (!describe(entry, &description)) return Entry::unknown;
  if (pc < description.begin || pc - description.begin >= description.bytes) return Entry::none;
  Machine machine;
  memset(static_cast<void*>(&machine.row), 0, sizeof machine.row);
  machine.start = machine.row;
  machine.depth = 0;
  if (!run(description.start_program, description.start_end, description, ~uptr{0}, machine)) return Entry::unknown;
  machine.start = machine.row;
  if (!run(description.program, description.end, description, pc, machine)) return Entry::unknown;
  *row = machine.row;
  return Entry::found;
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer

#endif
