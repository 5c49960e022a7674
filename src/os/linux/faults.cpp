// SPDX-License-Identifier: MIT
// Accesses to memory that may not be touched (SIGSEGV): who looks at them first, and how the signal goes on to whoever
// had it before.
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "os/linux/calls.hpp"
#include "os/linux/namespace.hpp"
#include "os/os.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

namespace {

void (*g_at_fault)(const os::Fault& fault);
struct sigaction g_before;

os::Access access_of([[maybe_unused]] const ucontext_t* context) {
#if defined(__x86_64__)
  constexpr unsigned long kWrite = 2;  // of the page fault's error code
  return (static_cast<unsigned long>(context->uc_mcontext.gregs[REG_ERR]) & kWrite) != 0 ? os::Access::write
                                                                                         : os::Access::read;
#else
  return os::Access::unknown;
#endif
}

// The end that the kernel makes. The instruction runs again after this handler, and its fault ends the process, with a
// core file that shows it. A signal that somebody sent does not come again by itself.
void pass_to_kernel(int signal, bool sent) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  if (sent) syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), signal);
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const bool sent = info->si_code <= 0;
  if ((g_before.sa_flags & SA_SIGINFO) == 0) {
    // What somebody sent may be ignored. The kernel ignores no fault.
    if (g_before.sa_handler == SIG_IGN && sent) return;
    if (g_before.sa_handler == SIG_DFL || g_before.sa_handler == SIG_IGN) return pass_to_kernel(signal, sent);
  }
  const struct sigaction next = g_before;
  if ((next.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) {
    memset(&g_before, 0, sizeof g_before);
    g_before.sa_handler = SIG_DFL;
  }
  if ((next.sa_flags & SA_SIGINFO) != 0) return next.sa_sigaction(signal, info, context);
  next.sa_handler(signal);
}

void caught(int signal, siginfo_t* info, void* context) {
  if (info->si_code > 0) {
    const KeepErrno keep;
    g_at_fault({reinterpret_cast<uptr>(info->si_addr), access_of(static_cast<const ucontext_t*>(context)), context});
  }
  pass_on(signal, info, context);
}

}  // namespace

bool on_fault(void (*handler)(const os::Fault& fault)) {
  // It may kill whoever asks for something new.
  if (os::filter_came()) return false;
  const KeepErrno keep;
  if (sigaction(SIGSEGV, nullptr, &g_before) != 0) return false;
  g_at_fault = handler;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = &caught;
  // What the handler that comes after this one expects; and the alternate stack, where the thread has one.
  action.sa_mask = g_before.sa_mask;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | (g_before.sa_flags & (SA_NODEFER | SA_RESTART));
  return sigaction(SIGSEGV, &action, nullptr) == 0;
}

u32 thread_number() { return static_cast<u32>(syscall(SYS_gettid)); }

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
