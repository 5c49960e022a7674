// SPDX-License-Identifier: MIT
// mlockall: what malloc returns afterwards is locked and resident without a touch, and a limit on locked memory is not
// used up by address space that nobody asked for.
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "hard/hammer.hpp"
#include "harness.hpp"
#include "support/glibc_malloc.hpp"

using namespace conformance;

namespace {

constexpr std::size_t kMega = 1 << 20;

bool may_lock_without_limit() {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {};
  syscall(SYS_capget, &header, data);
  return (data[0].effective & (1u << CAP_IPC_LOCK)) != 0;
}

// Memory that was writable before mlockall(MCL_FUTURE) need not be locked: an allocator may have that much in reserve.
constexpr std::size_t kMostReserve = 64 * kMega;

std::size_t pages_missing(const void* block, std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(block) & ~(page - 1);
  const std::size_t length = reinterpret_cast<std::uintptr_t>(block) + size - begin;
  static unsigned char present[(512 * kMega) / 4096];
  CHECK(mincore(reinterpret_cast<void*>(begin), length, present) == 0, "errno %d", errno);
  std::size_t missing = 0;
  for (std::size_t i = 0; i < (length + page - 1) / page; ++i) missing += (present[i] & 1) == 0;
  return missing;
}

bool is_marked_locked(const void* block) {
  Mapping mapping;
  CHECK(find_mapping(block, mapping));
  return mapping.marked_locked;
}

void expect_locked(const void* block, std::size_t size, const char* what) {
  CHECK(is_marked_locked(block), "%s of %zu bytes at %p is not locked", what, size, block);
  const std::size_t missing = pages_missing(block, size);
  CHECK(missing == 0, "%s of %zu bytes: %zu pages are not there", what, size, missing);
}

void check_locked_memory(bool current) {
  const std::size_t before = status_kib("VmLck");
  static void* blocks[200'000];
  std::size_t count = 0;
  // Where only the future is locked, uses up what was writable before.
  bool locked = current;
  while (!locked) {
    CHECK(count * 1000 < kMostReserve, "nothing of %zu MiB is locked", kMostReserve / kMega);
    for (int i = 0; i < 500; ++i) blocks[count++] = malloc(1000);
    locked = is_marked_locked(blocks[count - 1]);
  }
  const std::size_t first_checked = count;
  for (int i = 0; i < 20'000; ++i) blocks[count++] = malloc(1000);
  for (int i = 0; i < 100; ++i) blocks[count++] = malloc(100'000);
  for (int i = 0; i < 10; ++i) blocks[count++] = calloc(1, 3'000'000);
  for (std::size_t i = first_checked; i < count; i += i % 500 == 0 ? 1 : 7) {
    CHECK(blocks[i] != nullptr);
    if (i % 40 == 0) expect_locked(blocks[i], malloc_usable_size(blocks[i]), "block");
  }
  void* large = malloc(300 * kMega);
  CHECK(large != nullptr, "300 MiB within the limit: errno %d", errno);
  expect_locked(large, 300 * kMega, "large block");
  const std::size_t after = status_kib("VmLck");
  if (strcmp(argument(0), "limited") == 0) CHECK(after <= 1024 * 1024, "%zu KiB", after);
  note("VmLck from %zu to %zu KiB", before, after);
  // 20 + 10 + 30 + 300 MB. With both flags an allocator's reserved address space may be counted from the start; the
  // figure then does not grow, and the checks of the mappings above must do.
  CHECK(after >= (current ? 0 : before) + 350 * 1024, "from %zu to %zu KiB", before, after);
  free(large);
  for (std::size_t i = 0; i < count; ++i) free(blocks[i]);
}

// A block that moves leaves the lock to the others: the kernel takes it from all of a mapping of which mremap moved
// pages.
void check_neighbours() {
  void* blocks[20];
  for (void*& block : blocks) {
    block = malloc(3 * kMega);
    memset(block, 1, 3 * kMega);
    CHECK(is_marked_locked(static_cast<char*>(block) + kMega), "%p", block);
  }
  malloc_trim(0);  // so that there is no resident place to copy it to
  blocks[3] = realloc(blocks[3], 30 * kMega);
  for (void* block : blocks) CHECK(is_marked_locked(static_cast<char*>(block) + kMega), "%p", block);
  for (void* block : blocks) free(block);
}

void check_reuse() {
  // The limit would be gone after three rounds if a freed block stayed locked.
  for (int round = 0; round < 12; ++round) {
    auto* block = static_cast<char*>(malloc(300 * kMega));
    CHECK(block != nullptr, "round %d: errno %d", round, errno);
    block[round] = 1;
    free(block);
  }
  void* block = malloc(90 * kMega);
  fill(block, 90 * kMega, 3);
  block = realloc(block, 200 * kMega);
  CHECK(block != nullptr && holds_pattern(block, 90 * kMega, 3));
  expect_locked(block, 200 * kMega, "grown block");
  free(block);
  malloc_trim(0);
  check_neighbours();
  exercise(5000, 1, 3'000'000);
  check_metadata();
}

void run(int flags, bool current) {
  const bool privileged = may_lock_without_limit();
  const char* expected = argument(0);
  CHECK(expected != nullptr, "argument: privileged or limited");
  if (strcmp(expected, "privileged") == 0 && !privileged) skip("CAP_IPC_LOCK is not there");
  if (strcmp(expected, "limited") == 0) {
    CHECK(!privileged, "the driver was to drop CAP_IPC_LOCK");
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == 1024 * kMega);
  }
  exercise(5000, 1, 3'000'000);
  CHECK(mlockall(flags) == 0, "errno %d with VmSize %zu KiB", errno, status_kib("VmSize"));
  // With both flags the kernel compares all address space with the limit. Where the limit is only pretended, this is
  // the check.
  const bool limited = strcmp(expected, "limited") == 0;
  if (limited && current) CHECK(status_kib("VmSize") <= 1024 * 1024, "%zu KiB", status_kib("VmSize"));
  check_locked_memory(current);
  check_reuse();
  // Threads start and work under the lock too. Their stacks are locked as well, so they are small.
  pthread_t threads[8];
  for (pthread_t& thread : threads) {
    thread = start_thread(
        [](void*) -> void* {
          exercise(3000, 5, 200'000);
          return nullptr;
        },
        nullptr);
  }
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  if (limited) CHECK(status_kib("VmLck") <= 1024 * 1024, "%zu KiB", status_kib("VmLck"));
}

}  // namespace

CASE(future) { run(MCL_FUTURE, false); }

CASE(current_and_future) { run(MCL_CURRENT | MCL_FUTURE, true); }

// Locked on first touch: nothing is resident before, all is locked after.
CASE(on_fault) {
  exercise(5000, 1, 3'000'000);
  if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) skip("MCL_ONFAULT: errno %d", errno);
  void* large = malloc(300 * kMega);
  CHECK(large != nullptr);
  CHECK(is_marked_locked(large));
  memset(large, 1, 50 * kMega);
  free(large);
  check_neighbours();
  exercise(20'000, 1, 3'000'000);
  check_metadata();
}
