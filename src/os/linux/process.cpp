// SPDX-License-Identifier: MIT
// The process's surroundings on Linux: processors, time, randomness, messages.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
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

namespace coffer {
namespace COFFER_OS_NAMESPACE {

u32 processors() {
  static Owned<u32> cached;
  if (cached.get() == 0) {
    const int saved = errno;
    // Not the C library's function, around which the kernel would map 64 KiB more of it; and a set as large as any
    // kernel's, where cpu_set_t ends at 1,024 processors.
    u64 set[128];
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof set, set);
    u32 count = 0;
    for (long i = 0; i < bytes / static_cast<long>(sizeof set[0]); ++i) count += count_bits(set[i]);
    errno = saved;
    cached.set(count > 0 ? count : 1);
  }
  return cached.get();
}

u32 current_processor() {
  const int saved = errno;
  const int got = sched_getcpu();
  errno = saved;
  return got >= 0 ? static_cast<u32>(got) : 0;
}

void write_error(const char* text, usize length) {
  const int saved = errno;
  while (length > 0) {
    const ssize_t written = calls::write(STDERR_FILENO, text, length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    text += written;
    length -= static_cast<usize>(written);
  }
  errno = saved;
}

u64 random_seed() {
  const int saved = errno;
  u64 seed = 0;
  if (calls::random(&seed, sizeof seed, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof seed)) {
    // Early boot: the address of a local and the clock still differ from process to process.
    seed = reinterpret_cast<uptr>(&seed) ^ (os::monotonic_ns() * 0x9e3779b97f4a7c15u);
  }
  errno = saved;
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
  const int saved = errno;
  const bool done = pthread_atfork(prepare, parent, child) == 0;
  errno = saved;
  return done;
}

void yield() {
  const int saved = errno;
  sched_yield();
  errno = saved;
}

bool elevated() { return getauxval(AT_SECURE) != 0; }

}  // namespace COFFER_OS_NAMESPACE

void assertion_failed(const char* file, int line, const char* what) {
  char text[512];
  usize length = 0;
  const auto append = [&](const char* part) {
    while (*part != 0 && length < sizeof text - 24) text[length++] = *part++;
  };
  append("coffer: assertion failed: ");
  append(what);
  append(" at ");
  append(file);
  append(":");
  char digits[12];
  usize count = 0;
  u32 rest = static_cast<u32>(line);
  do {
    digits[count++] = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  while (count > 0) text[length++] = digits[--count];
  text[length++] = '\n';
  os::write_error(text, length);
  abort();
}

}  // namespace coffer
