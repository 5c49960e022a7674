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

// From a function to its caller. `table`: the sorted table of the object that pc lies in. false: there is no entry for
// pc, it says that this is the first function of a thread, or something in it is not understood or leads nowhere.
bool step_by_table(const u8* table, uptr pc, Registers& registers, Stack& stack);

#endif

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
