// SPDX-License-Identifier: MIT
// A thread that the C library does not know. pthread_create allocates and takes locks of the C library, which the
// caller of free may hold; this takes none and needs no memory but what lies ready here, untouched until it is used.
//
// What such a thread lacks: an entry in the C library's list of threads (setuid does not reach it, pthread_exit of the
// last other thread does not wait for it), a thread descriptor beyond the few words below, dynamic thread-local
// storage. Its thread pointer leads into a block of its own, where Coffer's variables and errno lie at the offsets that
// they have in every thread.
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "base/atomic.hpp"
#include "os/linux/calls.hpp"
#include "os/linux/filter.hpp"

// Both are in newer C libraries only.
extern "C" __attribute__((weak)) const ptrdiff_t __rseq_offset;
extern "C" __attribute__((weak)) char __libc_single_threaded;

namespace coffer {

extern __thread char t_lock_identity __attribute__((visibility("hidden"), tls_model("initial-exec")));

namespace COFFER_OS_NAMESPACE {

namespace {

// Sanitizers keep account of threads by what the C library tells them.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSupported = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
constexpr bool kSupported = false;
#else
constexpr bool kSupported = true;
#endif
#else
constexpr bool kSupported = true;
#endif

constexpr usize kBelow = 48 * 1024;  // thread-local variables lie below the thread pointer on some machines,
constexpr usize kAbove = 16 * 1024;  // above it on others
constexpr usize kMargin = 256;       // a variable, or the C library's block for restartable sequences, is no larger
constexpr usize kStack = 64 * 1024;

struct alignas(64) Area {
  char below[kBelow];
  char above[kAbove];
  char stack[kStack];
};

// A thread may still be on its way out when the next one is wanted.
constexpr usize kAreas = 2;
constinit Area g_areas[kAreas] = {};
// Apart from the areas, so that a process which starts no thread touches no page for them.
struct Threads {
  Atomic<i32> number[kAreas];  // by area; the kernel clears it when the thread has left its stack
};
constinit Threads g_threads;

Atomic<i32> g_process;  // number of the process that may start threads

bool fits(const volatile void* variable) {
  const ptrdiff_t offset = static_cast<const volatile char*>(variable) - static_cast<char*>(__builtin_thread_pointer());
  return offset >= -static_cast<ptrdiff_t>(kBelow - kMargin) && offset <= static_cast<ptrdiff_t>(kAbove - kMargin);
}

bool offsets_fit() {
  const char* const thread_pointer = static_cast<char*>(__builtin_thread_pointer());
  if (&__rseq_offset != nullptr && !fits(thread_pointer + __rseq_offset)) return false;
  return fits(&errno) && fits(&t_lock_identity);
}

// The words of a thread descriptor that compiled code looks at: on x86-64 its own address, twice, and the guards that
// the compiler and the C library compare with. (Elsewhere these are global.)
void fill_descriptor(char* to) {
#ifdef __x86_64__
  constexpr usize kGuards = 0x28, kGuardBytes = 16;
  memcpy(to + kGuards, static_cast<char*>(__builtin_thread_pointer()) + kGuards, kGuardBytes);
  const char* const self = to;
  memcpy(to, &self, sizeof self);
  memcpy(to + 2 * sizeof self, &self, sizeof self);
#else
  static_cast<void>(to);
#endif
}

struct Start {
  void (*body)();
};
Start g_start;  // written before the thread starts; there is one at a time

int enter(void*) {
  g_start.body();
  return 0;
}

// A filter for system calls may kill a process that makes a thread. One that was there from the start hardly kills one
// that has made some already.
bool sandbox_forbids() {
  const Filter filter = filter_now();
  const bool alone = &__libc_single_threaded == nullptr || __libc_single_threaded != 0;
  return filter == Filter::since || (alone && filter != Filter::none);
}

// clone with every signal blocked, which the thread inherits: a handler of the program must not run on it.
bool clone_quietly(Area* area, Atomic<i32>* number) {
  // What pthread_create asks for, so that tools which know threads by it (valgrind) know this one.
  constexpr int kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                         CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  u64 before;
  if (!block_signals(&before)) return false;
  char* const thread_pointer = area->above;
  fill_descriptor(thread_pointer);
  const int got = clone(&enter, area->stack + kStack, kFlags, nullptr, number, thread_pointer, number);
  restore_signals(before);
  return got > 0;
}

}  // namespace

void note_process() {
  if (!kSupported) return;
  const KeepErrno keep;
  // relaxed, both: the process has one thread, or starts. Threads of the parent do not exist here.
  for (Atomic<i32>& number : g_threads.number) number.store(0, relaxed);
  g_process.store(static_cast<i32>(syscall(SYS_getpid)), relaxed);
}

bool is_noted_process() {
  const KeepErrno keep;
  return syscall(SYS_getpid) == g_process.load(relaxed);  // relaxed: written while there was one thread
}

bool transient_reaches(const volatile void* variable) { return fits(variable); }

bool start_transient(void (*body)()) {
  if (!kSupported || !offsets_fit()) return false;
  const KeepErrno keep;
  // acquire: pairs with the kernel's clearing, after which nothing uses the stack any more.
  const usize place = g_threads.number[0].load(acquire) == 0 ? 0 : 1;
  Atomic<i32>* const number = &g_threads.number[place];
  if (number->load(acquire) != 0 || sandbox_forbids() || !is_noted_process()) return false;
  g_start.body = body;
  const bool started = clone_quietly(&g_areas[place], number);
  if (!started) number->store(0, relaxed);  // relaxed: the caller is the only one who starts
  return started;
}

bool has_process_rights() {
  const KeepErrno keep;
  constexpr usize kWords = _LINUX_CAPABILITY_U32S_3;
  __user_cap_data_struct own[kWords] = {}, first[kWords] = {};
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  // What cannot be asked is not known to differ.
  if (syscall(SYS_capget, &header, own) != 0) return true;
  header.pid = static_cast<int>(syscall(SYS_getpid));
  return syscall(SYS_capget, &header, first) != 0 || memcmp(own, first, sizeof own) == 0;
}

void pause_ns(u64 nanoseconds) {
  const KeepErrno keep;
  struct timespec time = {static_cast<time_t>(nanoseconds / 1'000'000'000),
                          static_cast<long>(nanoseconds % 1'000'000'000)};
  // Not nanosleep: in the C library that is a point of cancellation, which a transient thread cannot stand.
  syscall(SYS_nanosleep, &time, nullptr);
}

}  // namespace COFFER_OS_NAMESPACE
}  // namespace coffer
