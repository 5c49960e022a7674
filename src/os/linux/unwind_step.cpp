// SPDX-License-Identifier: MIT
// From a function to its caller: by a row of its table, or by what is known of that row already.
#include <string.h>

#include "base/atomic.hpp"
#include "os/linux/table_bytes.hpp"
#include "os/linux/unwind.hpp"

#if defined(__x86_64__)

namespace coffer {
namespace COFFER_OS_NAMESPACE {

namespace {

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

// The caller's frame must lie above ours, and not far away.
bool is_frame(uptr cfa, const Registers& registers) {
  const uptr before = registers.value[kRsp];
  return cfa > before && cfa - before <= kLongestFrame;
}

// Or what looks so: a function that keeps none has anything there.
bool has_frame_pointer(const Registers& registers) {
  const uptr frame = registers.value[kRbp], before = registers.value[kRsp];
  return frame >= before && frame - before <= kLongestFrame;
}

// --- Rules in a word. ---
//
// Nearly all rows say: the frame is at the stack or the frame pointer plus an offset, the return address right below
// it, and of the registers that a function has to keep some lie further down. That fits a word: from the lowest bit
// which register, 17 bits of the frame's offset in words, 7 bits for each of kKept: how many words below the frame it
// lies, 0 if the function leaves it alone. The highest bit is always set, so that 0 is no rule.
constexpr u32 kKept[] = {3, kRbp, 12, 13, 14, 15};
constexpr u32 kFrameBits = 17, kKeptBits = 7, kFirstKept = 1 + kFrameBits;
constexpr u64 kIsRule = u64{1} << 63;
constexpr u64 kNoCaller = kIsRule;     // a frame of no size: the walk ends
constexpr u64 kNoEntry = kIsRule | 1;  // likewise: the table leaves the function out
constexpr i64 kWord = sizeof(uptr);
static_assert(kFirstKept + kKeptBits * (sizeof kKept / sizeof kKept[0]) < 63);

constexpr bool is_kept(u32 number) {
  for (const u32 kept : kKept) {
    if (kept == number) return true;
  }
  return false;
}

// --- What is known already. ---
//
// Rules by address, each in a cell of its own or not at all. A cell is two words that are believed only together, so
// neither threads nor signal handlers need a lock: the rule, and the address's key combined with it. The key also has
// the object's mark, so that what is loaded in the place of an object that was unloaded has rules of its own.
constexpr u32 kCellsLog2 = 11;

struct Cell {
  Atomic<u64> rule;
  Atomic<u64> check;
};

constinit Cell g_cells[usize{1} << kCellsLog2];

u64 key_of(uptr pc, u64 mark) { return (pc ^ mark) * 0x9e3779b97f4a7c15u; }

Cell& cell_of(u64 key) { return g_cells[key >> (64 - kCellsLog2)]; }

u64 known_rule(u64 key) {
  const Cell& cell = cell_of(key);
  // relaxed, in this file: words that do not belong together are seen by the check.
  const u64 rule = cell.rule.load(relaxed);
  return (cell.check.load(relaxed) ^ rule) == key ? rule : 0;
}

void remember(u64 key, u64 rule) {
  Cell& cell = cell_of(key);
  cell.rule.store(rule, relaxed);
  cell.check.store(key ^ rule, relaxed);
}

}  // namespace

u64 rule_of(const Row& row) {
  if (row.rule[kReturn] != Rule::at_offset && row.rule[kReturn] != Rule::in_register) return kNoCaller;
  if (row.cfa_expression != nullptr || (row.cfa_register != kRsp && row.cfa_register != kRbp)) return 0;
  if (row.cfa_offset <= 0 || row.cfa_offset % kWord != 0 || row.cfa_offset / kWord >> kFrameBits != 0) return 0;
  if (row.rule[kReturn] != Rule::at_offset || row.offset[kReturn] != -kWord) return 0;
  u64 rule = kIsRule | static_cast<u64>(row.cfa_offset / kWord) << 1 | (row.cfa_register == kRbp ? 1 : 0);
  u32 shift = kFirstKept;
  for (const u32 number : kKept) {
    if (row.rule[number] == Rule::in_register) return 0;
    if (row.rule[number] == Rule::at_offset) {
      const i64 offset = row.offset[number];
      if (offset >= 0 || offset % kWord != 0 || -offset / kWord >> kKeptBits != 0) return 0;
      rule |= static_cast<u64>(-offset / kWord) << shift;
    }
    shift += kKeptBits;
  }
  for (u32 i = 0; i < kReturn; ++i) {
    if (!is_kept(i) && (row.rule[i] == Rule::at_offset || row.rule[i] == Rule::in_register)) return 0;
  }
  return rule;
}

bool step_by_rule(u64 rule, Registers& registers, Stack& stack) {
  const uptr base = registers.value[(rule & 1) != 0 ? kRbp : kRsp];
  const uptr cfa = base + (rule >> 1 & ((u64{1} << kFrameBits) - 1)) * kWord;
  if (!is_frame(cfa, registers)) return false;
  // In place: where this fails the walk ends.
  u64 left = (rule & ~kIsRule) >> kFirstKept;
  for (const u32* number = kKept; left != 0; ++number, left >>= kKeptBits) {
    const u64 words = left & ((u64{1} << kKeptBits) - 1);
    if (words != 0 && !stack.read(cfa - words * kWord, &registers.value[*number])) return false;
  }
  if (!stack.read(cfa - kWord, &registers.value[kReturn])) return false;
  registers.value[kRsp] = cfa;
  return true;
}

bool step_by_row(const Row& row, Registers& registers, Stack& stack) {
  uptr cfa = 0;
  if (row.cfa_expression != nullptr) {
    if (!evaluate(row.cfa_expression, registers, stack, &cfa)) return false;
  } else {
    if (row.cfa_register >= kReturn) return false;
    cfa = registers.value[row.cfa_register] + static_cast<uptr>(row.cfa_offset);
  }
  if (!is_frame(cfa, registers)) return false;
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

bool step_by_frame_pointer(Registers& registers, Stack& stack) {
  if (!has_frame_pointer(registers)) return false;
  const uptr frame = registers.value[kRbp];
  uptr caller = 0, next = 0;
  if (!stack.read(frame, &next) || !stack.read(frame + sizeof(uptr), &caller)) return false;
  registers.value[kReturn] = caller;
  registers.value[kRsp] = frame + 2 * sizeof(uptr);
  registers.value[kRbp] = next;
  return true;
}

u64 mark_of(const u8* table) {
  const u32 count = entry_count(table);
  if (count == 0) return reinterpret_cast<uptr>(table);
  u64 head, last;
  memcpy(&head, table + 4, sizeof head);  // where the functions' entries are, and how many
  memcpy(&last, entry_row(table, count - 1), sizeof last);
  return ((reinterpret_cast<uptr>(table) ^ head) * 0xbf58476d1ce4e5b9u) ^ last * 0x94d049bb133111ebu;
}

bool step_by_table(const u8* table, u64 mark, uptr pc, Registers& registers, Stack& stack) {
  const u64 key = key_of(pc, mark);
  u64 rule = known_rule(key);
  if (rule == 0) {
    Row row;
    const Entry entry = find_row(table, pc, &row);
    rule = entry == Entry::found ? rule_of(row) : entry == Entry::none ? kNoEntry : kNoCaller;
    if (rule == 0) return step_by_row(row, registers, stack);
    remember(key, rule);
  }
  // A function that keeps no frame pointer has anything there. What leads to another frame is one.
  if (rule == kNoEntry) return step_by_frame_pointer(registers, stack) && has_frame_pointer(registers);
  return step_by_rule(rule, registers, stack);
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer

#endif
