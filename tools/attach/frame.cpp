// SPDX-License-Identifier: MIT
#include "attach/frame.hpp"

#include <cpuid.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cstddef>
#include <cstring>

namespace coffer::attach {

namespace {

// The kernel's, for a call that a signal has interrupted (include/linux/errno.h).
constexpr std::int64_t kRestart = -512, kRestartNoInterrupt = -513, kRestartNoHandler = -514, kRestartBlock = -516;

constexpr std::size_t kLegacyBytes = 512;  // as fxsave writes them
constexpr std::size_t kSoftware = 464;     // of these, from here on what the kernel says itself
constexpr std::size_t kHeaderFeatures = 512;
constexpr std::uint64_t kTiles = std::uint64_t{1} << 18;  // a process has room for them only if it has asked
constexpr std::uint32_t kMagic1 = 0x46505853, kMagic2 = 0x46505845;
constexpr std::uint64_t kHasExtended = 1, kHasSegments = 6;  // UC_FP_XSTATE; UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS

// Bytes of the state of these features, in the form that has a fixed place for each.
std::size_t state_bytes(std::uint64_t features) {
  std::size_t bytes = kLegacyBytes + 64;
  for (unsigned feature = 2; feature < 63; ++feature) {
    if ((features >> feature & 1) == 0) continue;
    unsigned size = 0, offset = 0, c = 0, d = 0;
    if (__get_cpuid_count(0xd, feature, &size, &offset, &c, &d) == 0) continue;
    if (std::size_t{offset} + size > bytes) bytes = std::size_t{offset} + size;
  }
  return bytes;
}

template <class T>
void put(std::vector<char>& bytes, std::size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <class T>
T get(const std::vector<char>& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

user_regs_struct as_if_interrupted(const user_regs_struct& stopped) {
  user_regs_struct found = stopped;
  found.orig_rax = ~std::uint64_t{0};
  if (static_cast<std::int64_t>(stopped.orig_rax) < 0) return found;
  switch (static_cast<std::int64_t>(stopped.rax)) {
    case kRestart:
    case kRestartNoInterrupt:
    case kRestartNoHandler:
    case kRestartBlock:  // whose rest the kernel forgets when a handler is left: the call has its whole time once more
      found.rax = stopped.orig_rax;
      found.rip -= 2;  // syscall
      break;
    default:
      break;
  }
  return found;
}

std::vector<char> signal_frame(std::uint64_t at, std::uint64_t leave, const user_regs_struct& registers,
                               std::uint64_t mask, const std::vector<char>& extended) {
  // The kernel's ucontext: glibc's has a larger mask, and what comes behind it.
  constexpr std::size_t kContext = sizeof(std::uint64_t);
  constexpr std::size_t kMask = kContext + offsetof(ucontext_t, uc_sigmask);
  std::size_t state = kMask + sizeof mask + 128;  // the kernel's siginfo, which it does not read
  state += (64 - (at + state) % 64) % 64;

  const std::uint64_t all = get<std::uint64_t>(extended, kSoftware);  // as ptrace gives it: the features in use
  const std::uint64_t in_use = get<std::uint64_t>(extended, kHeaderFeatures);
  const std::uint64_t features = (in_use & kTiles) != 0 ? all : all & ~kTiles;
  std::size_t bytes = state_bytes(features);
  if (bytes > extended.size()) bytes = extended.size();
  std::vector<char> frame(state + bytes + sizeof kMagic2);
  put(frame, 0, leave);

  ucontext_t context = {};
  greg_t* to = context.uc_mcontext.gregs;
  const auto set = [&](int which, std::uint64_t value) { to[which] = static_cast<greg_t>(value); };
  set(REG_R8, registers.r8), set(REG_R9, registers.r9), set(REG_R10, registers.r10), set(REG_R11, registers.r11);
  set(REG_R12, registers.r12), set(REG_R13, registers.r13), set(REG_R14, registers.r14), set(REG_R15, registers.r15);
  set(REG_RDI, registers.rdi), set(REG_RSI, registers.rsi), set(REG_RBP, registers.rbp), set(REG_RBX, registers.rbx);
  set(REG_RDX, registers.rdx), set(REG_RAX, registers.rax), set(REG_RCX, registers.rcx), set(REG_RSP, registers.rsp);
  set(REG_RIP, registers.rip), set(REG_EFL, registers.eflags);
  set(REG_CSGSFS, (registers.cs & 0xffff) | (registers.gs & 0xffff) << 16 | (registers.fs & 0xffff) << 32 |
                      (registers.ss & 0xffff) << 48);
  context.uc_flags = kHasExtended | kHasSegments;
  context.uc_stack.ss_flags = ~0;  // none that there is: the thread's alternative stack stays as it is
  context.uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(at + state);
  std::memcpy(frame.data() + kContext, &context, offsetof(ucontext_t, uc_sigmask));
  put(frame, kMask, mask);

  std::memcpy(frame.data() + state, extended.data(), bytes);
  struct {
    std::uint32_t magic, all_bytes;
    std::uint64_t features;
    std::uint32_t bytes, nothing[7];
  } const said = {
      kMagic1, static_cast<std::uint32_t>(bytes + sizeof kMagic2), features, static_cast<std::uint32_t>(bytes), {}};
  put(frame, state + kSoftware, said);
  put(frame, state + bytes, kMagic2);
  return frame;
}

}  // namespace coffer::attach
