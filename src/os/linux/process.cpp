// SPDX-License-Identifier: MIT
// The process's surroundings on Linux: processors, time, randomness, messages.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.hpp"
#include "base/bits.hpp"
#include "os/linux/calls.hpp"
#include "os/linux/namespace.hpp"
#include "os/os.hpp"

// glibc has it from 2.35 on. What on_fork_while_forking asks has no name of its own; this is the nearest.
extern "C" __attribute__((weak)) void* _dl_find_object;

namespace coffer {
namespace COFFER_OS_NAMESPACE {

u32 processors() {
  static Owned<u32> cached;
  if (cached.get() == 0) {
    const KeepErrno keep;
    // Not the C library's function, around which the kernel would map 64 KiB more of it; and a set as large as any
    // kernel's, where cpu_set_t ends at 1,024 processors.
    u64 set[128];
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof set, set);
    u32 count = 0;
    for (long i = 0; i < bytes / static_cast<long>(sizeof set[0]); ++i) count += count_bits(set[i]);
    cached.set(count > 0 ? count : 1);
  }
  return cached.get();
}

u32 current_processor() {
  const KeepErrno keep;
  const int got = sched_getcpu();
  return got >= 0 ? static_cast<u32>(got) : 0;
}

u64 random_seed() {
  const KeepErrno keep;
  u64 seed = 0;
  if (calls::random(&seed, sizeof seed, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof seed)) {
    // Early boot: the address of a local and the clock still differ from process to process.
    seed = reinterpret_cast<uptr>(&seed) ^ (os::monotonic_ns() * 0x9e3779b97f4a7c15u);
  }
  return seed;
}

namespace {

u64 read_clock(clockid_t clock) {
  struct timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000u + static_cast<u64>(now.tv_nsec);
}

}  // namespace

u64 monotonic_ns() { return read_clock(CLOCK_MONOTONIC); }

u64 coarse_ns() { return read_clock(CLOCK_MONOTONIC_COARSE); }

u64 boot_ns() { return read_clock(CLOCK_BOOTTIME); }

u64 unix_ns() { return read_clock(CLOCK_REALTIME); }

bool on_fork(void (*prepare)(), void (*parent)(), void (*child)()) {
  const KeepErrno keep;
  return pthread_atfork(prepare, parent, child) == 0;
}

// With what runs at load (libcoffer.ld).
__attribute__((section(".coffer_load"))) bool on_fork_while_forking() { return &_dl_find_object != nullptr; }

namespace {

constexpr usize kSignalBytes = 8;  // of the kernel's set; the C library's sigprocmask leaves two signals out

}  // namespace

bool block_signals(u64* before) {
  const KeepErrno keep;
  const u64 all = ~u64{0};
  return syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, before, kSignalBytes) == 0;
}

void restore_signals(u64 before) {
  const KeepErrno keep;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, kSignalBytes);
}

bool is_first_thread() {
  const KeepErrno keep;
  return syscall(SYS_gettid) == syscall(SYS_getpid);
}

void yield() {
  const KeepErrno keep;
  sched_yield();
}

bool elevated() { return getauxval(AT_SECURE) != 0; }

}  // namespace COFFER_OS_NAMESPACE

void assertion_failed(const char* file, int line, const char* what) {
  TextBuffer<512> text;
  text.add("coffer: assertion failed: ").add(what).add(" at ").add(file).add(':').number(static_cast<u32>(line));
  os::write_line(text);
  abort();
}

}  // namespace coffer
