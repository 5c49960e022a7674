#include "os/linux/unwind.hpp"

#include <string.h>

#if defined(__x86_64__)

namespace coffer {
namespace COFFER_OS_NAMESPACE {

namespace {

enum class Rule : u8 { same, undefined, at_offset, is_offset, in_register, expression };

struct Row {
  Rule rule[kRegisters];
  i64 offset[kRegisters];  // or a register's number
  u32 cfa_register;
  i64 cfa_offset;
  const u8* cfa_expression;  // nullptr: register and offset
};

// What a table says, byte by byte; beyond its end it is all zeros, and bad.
class Bytes {
 public:
  Bytes(const u8* at, const u8* end) : at_(at), end_(end) {}

  const u8* at() const { return at_; }
  bool more() const { return at_ < end_; }
  bool bad() const { return bad_; }
  void skip(u64 count) {
    if (count > static_cast<u64>(end_ - at_)) {
      bad_ = true;
      at_ = end_;
    } else {
      at_ += count;
    }
  }
  template <class T>
  T fixed() {
    T value{};
    if (static_cast<usize>(end_ - at_) < sizeof value) {
      bad_ = true;
      at_ = end_;
      return value;
    }
    memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  u64 uleb() {
    u64 value = 0;
    for (u32 shift = 0;; shift += 7) {
      const u8 byte = fixed<u8>();
      if (shift < 64) value |= u64{byte & 0x7fu} << shift;
      if (bad_ || (byte & 0x80) == 0) return value;
    }
  }
  i64 sleb() {
    u64 value = 0;
    for (u32 shift = 0;;) {
      const u8 byte = fixed<u8>();
      if (shift < 64) value |= u64{byte & 0x7fu} << shift;
      shift += 7;
      if (bad_ || (byte & 0x80) == 0) {
        if (shift < 64 && (byte & 0x40) != 0) value |= ~u64{0} << shift;
        return static_cast<i64>(value);
      }
    }
  }
  // A pointer of one of the encodings that are in use: absolute, or relative to where it stands; 4 or 8 bytes.
  uptr pointer(u8 encoding) {
    const uptr here = reinterpret_cast<uptr>(at_);
    i64 value = 0;
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        value = fixed<i64>();
        break;
      case 0x03:
        value = fixed<u32>();
        break;
      case 0x0b:
        value = fixed<i32>();
        break;
      default:
        bad_ = true;
        return 0;
    }
    if ((encoding & 0x70) == 0x10) return here + static_cast<uptr>(value);
    if ((encoding & 0x70) != 0) bad_ = true;
    return static_cast<uptr>(value);
  }

 private:
  const u8* at_;
  const u8* end_;
  bool bad_ = false;
};

struct Description {
  const u8* start_program;  // the rules of the function's first instruction ...
  const u8* start_end;
  const u8* program;  // ... and how they change
  const u8* end;
  uptr begin;
  u64 code_factor;
  i64 data_factor;
};

// Reads the entry of a function and the one that it shares with others.
bool describe(const u8* entry, uptr pc, Description* to) {
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
  const uptr bytes = own.pointer(encoding & 0x0f);
  if (own.bad() || shared.bad() || data.bad() || pc < to->begin || pc - to->begin >= bytes) return false;
  own.skip(own.uleb());
  to->start_program = shared.at();
  to->start_end = shared_head.at() + shared_length;
  to->program = own.at();
  to->end = head.at() + length;
  return !own.bad();
}

// Looks the function up in the sorted table that the linker made.
const u8* find_entry(const u8* table, uptr pc) {
  constexpr u8 kPointer = 0x1b, kCount = 0x03, kSorted = 0x3b;
  if (table[0] != 1 || table[1] != kPointer || table[2] != kCount || table[3] != kSorted) return nullptr;
  u32 count;
  memcpy(&count, table + 8, sizeof count);
  const u8* rows = table + 12;
  const i64 wanted = static_cast<i64>(pc - reinterpret_cast<uptr>(table));
  u32 low = 0, high = count;
  while (low < high) {
    const u32 middle = low + (high - low) / 2;
    i32 start;
    memcpy(&start, rows + usize{middle} * 8, sizeof start);
    if (start <= wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return nullptr;
  i32 offset;
  memcpy(&offset, rows + usize{low - 1} * 8 + 4, sizeof offset);
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

// The forms that compilers use where a function aligns its stack: registers, loads, sums.
bool evaluate(const u8* expression, const Registers& registers, Stack& stack, uptr* result) {
  Bytes head(expression, expression + 16);
  const u64 length = head.uleb();
  if (length == 0 || length > 64) return false;
  Bytes bytes(head.at(), head.at() + length);
  uptr value = 0;
  for (bool first = true; bytes.more(); first = false) {
    const u8 code = bytes.fixed<u8>();
    if (first && code >= 0x70 && code < 0x70 + kRegisters - 1) {
      value = registers.value[code - 0x70] + static_cast<uptr>(bytes.sleb());
    } else if (!first && code == 0x06) {
      if (!stack.read(value, &value)) return false;
    } else if (!first && code == 0x23) {
      value += bytes.uleb();
    } else {
      return false;
    }
  }
  *result = value;
  return !bytes.bad();
}

}  // namespace

bool step_by_table(const u8* table, uptr pc, Registers& registers, Stack& stack) {
  const u8* entry = find_entry(table, pc);
  Description description;
  if (entry == nullptr || !describe(entry, pc, &description)) return false;
  Machine machine;
  memset(static_cast<void*>(&machine.row), 0, sizeof machine.row);
  machine.start = machine.row;
  machine.depth = 0;
  if (!run(description.start_program, description.start_end, description, ~uptr{0}, machine)) return false;
  machine.start = machine.row;
  if (!run(description.program, description.end, description, pc, machine)) return false;
  const Row& row = machine.row;
  uptr cfa = 0;
  if (row.cfa_expression != nullptr) {
    if (!evaluate(row.cfa_expression, registers, stack, &cfa)) return false;
  } else {
    if (row.cfa_register >= kReturn) return false;
    cfa = registers.value[row.cfa_register] + static_cast<uptr>(row.cfa_offset);
  }
  const uptr before = registers.value[kRsp];
  if (cfa <= before || cfa - before > kLongestFrame) return false;
  Registers next = registers;
  for (u32 i = 0; i < kRegisters; ++i) {
    if (row.rule[i] == Rule::at_offset && !stack.read(cfa + static_cast<uptr>(row.offset[i]), &next.value[i])) {
      return false;
    }
    if (row.rule[i] == Rule::in_register) {
      if (row.offset[i] < 0 || row.offset[i] >= static_cast<i64>(kRegisters)) return false;
      next.value[i] = registers.value[row.offset[i]];
    }
  }
  const Rule back = row.rule[kReturn];
  if (back != Rule::at_offset && back != Rule::in_register) return false;  // undefined: the first function of a thread
  next.value[kRsp] = cfa;
  registers = next;
  return true;
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer

#endif
