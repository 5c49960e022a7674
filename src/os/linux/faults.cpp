// SPDX-License-Identifier: MIT
// Accesses to memory that may not be touched (SIGSEGV): who looks at them first, and how the signal goes on to whoever
// had it before.
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/atomic.hpp"
#include "os/linux/calls.hpp"
#include "os/linux/namespace.hpp"
#include "os/os.hpp"

namespace coffer {
namespace COFFER_OS_NAMESPACE {

namespace {

void (*g_at_fault)(const os::Fault& fault);

// A handler that the program installs after ours may call ours when it is done. So what is put before it is another one
// than that, with another successor: else the two would call each other for ever.
constexpr u32 kLinks = 2;
struct sigaction g_before[kLinks];
u32 g_links = 0;
Atomic<const void*> g_told;  // the context of the fault that the second one passes on: the first need not tell it

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

void pass_on(struct sigaction& before, int signal, siginfo_t* info, void* context) {
  const bool sent = info->si_code <= 0;
  if ((before.sa_flags & SA_SIGINFO) == 0) {
    // What somebody sent may be ignored. The kernel ignores no fault.
    if (before.sa_handler == SIG_IGN && sent) return;
    if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) return pass_to_kernel(signal, sent);
  }
  const struct sigaction next = before;
  if ((next.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) {
    memset(&before, 0, sizeof before);
    before.sa_handler = SIG_DFL;
  }
  if ((next.sa_flags & SA_SIGINFO) != 0) return next.sa_sigaction(signal, info, context);
  next.sa_handler(signal);
}

template <u32 kLink>
void caught(int signal, siginfo_t* info, void* context) {
  // relaxed, both: one thread's own. Where another one's fault comes between, both tell it.
  if (info->si_code > 0 && (kLink != 0 || g_told.load(relaxed) != context)) {
    const KeepErrno keep;
    g_at_fault({reinterpret_cast<uptr>(info->si_addr), access_of(static_cast<const ucontext_t*>(context)), context});
  }
  if (kLink != 0) g_told.store(context, relaxed);
  pass_on(g_before[kLink], signal, info, context);
}

constexpr void (*kCaught[kLinks])(int, siginfo_t*, void*) = {&caught<0>, &caught<1>};

}  // namespace

bool on_fault(void (*handler)(const os::Fault& fault)) {
  // It may kill whoever asks for something new.
  if (os::filter_came()) return g_links != 0;
  const KeepErrno keep;
  struct sigaction now;
  if (sigaction(SIGSEGV, nullptr, &now) != 0) return false;
  for (u32 i = 0; i < kLinks && i < g_links; ++i) {
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == kCaught[i]) return true;
  }
  if (g_links >= kLinks) return true;
  g_at_fault = handler;
  g_before[g_links] = now;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = kCaught[g_links];
  // What the handler that comes after this one expects; and the alternate stack, where the thread has one.
  action.sa_mask = now.sa_mask;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | (now.sa_flags & (SA_NODEFER | SA_RESTART));
  if (sigaction(SIGSEGV, &action, nullptr) != 0) return g_links != 0;
  ++g_links;
  return true;
}

u32 thread_number() { return static_cast<u32>(syscall(SYS_gettid)); }

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
