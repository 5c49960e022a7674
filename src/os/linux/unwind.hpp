// SPDX-License-Identifier: MIT
// One step up a stack by the tables that compilers make for exceptions (.eh_frame, in DWARF's form). For stack.cpp.
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/namespace.hpp"
#include "os/os.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

inline constexpr usize kPage = 4096;
inline constexpr uptr kLongestFrame = uptr{1} << 20;

// Reads words of the stack; false where it is not readable.
class Stack {
 public:
  explicit Stack(uptr here) : known_(here / kPage) {}

  __attribute__((no_sanitize("address", "thread"))) bool read(uptr address, uptr* word) {
    if (address % sizeof(uptr) != 0 || !reach(address)) return false;
    *word = *reinterpret_cast<const uptr*>(address);
    return true;
  }

 private:
  bool reach(uptr address) {
    const uptr page = address / kPage;
    if (page == known_) return true;
    // The kernel reads the set of signals first, and only then finds that it does not know what to do with it.
    const int saved = errno;
    const long result = syscall(SYS_rt_sigprocmask, ~0, page * kPage, nullptr, 8);
    const bool readable = result == 0 || errno != EFAULT;
    errno = saved;
    if (readable) known_ = page;
    return readable;
  }

  uptr known_;
};

#if defined(__x86_64__)

// Numbers that the tables give registers.
inline constexpr u32 kRbp = 6, kRsp = 7, kReturn = 16, kRegisters = 17;

struct Registers {
  uptr value[kRegisters];
};

enum class Rule : u8 { same, undefined, at_offset, in_register, expression };

// Where the caller's registers are, for one address.
struct Row {
  Rule rule[kRegisters];
  i64 offset[kRegisters];  // or a register's number
  u32 cfa_register;
  i64 cfa_offset;
  const u8* cfa_expression;  // nullptr: register and offset
};

// The sorted table of an object, that the linker made: how many functions are in it (0: it has another form), and the
// row of one, its address and where its entry is, as two distances of 4 bytes from the table.
u32 entry_count(const u8* table);
inline const u8* entry_row(const u8* table, u32 index) { return table + 12 + usize{index} * 8; }
// none: the table leaves pc's function out. unknown: something in the table is not understood.
enum class Entry : u8 { none, unknown, found };
Entry find_row(const u8* table, uptr pc, Row* row);
// The same in a word, where it is of a common form; 0: it is not.
u64 rule_of(const Row& row);

// From a function to its caller, all three. false: this is the first function of a thread, or it leads nowhere; the
// registers are anything then.
bool step_by_row(const Row& row, Registers& registers, Stack& stack);
bool step_by_rule(u64 rule, Registers& registers, Stack& stack);
bool step_by_frame_pointer(Registers& registers, Stack& stack);
// `table`: that of the object that pc lies in, and `mark` is what mark_of said of it. Remembers what it found.
bool step_by_table(const u8* table, u64 mark, uptr pc, Registers& registers, Stack& stack);
// Tells an object from what was at its place before.
u64 mark_of(const u8* table);

#endif

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
