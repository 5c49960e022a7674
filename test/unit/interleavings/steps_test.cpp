// SPDX-License-Identifier: MIT
// What a request costs that cannot be served, in cells that are looked at: a walk over the arena is thousands of them.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "fresh.hpp"
#include "ground.hpp"
#include "interleavings/scheduler.hpp"
#include "large/large.hpp"
#include "support/build.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr usize kMiB = usize{1} << 20;
// A search looks at 1,024 chunks for resident ones, and at the words of the groups, of which 10,000 blocks fill 320.
constexpr u64 kMostLooks = 4096;

// From here on the kernel refuses what is more than this process can have.
void limit_data() {
  const rlimit limit = {rlim_t{4} << 30, RLIM_INFINITY};
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
}

void* try_to_allocate(usize size, usize alignment) {
  bool zero = false;
  return allocate_large(size, alignment, &zero);
}

u64 looks_of_refusal(usize size, usize alignment) {
  const u64 before = schedule::counted();
  EXPECT_EQ(try_to_allocate(size, alignment), nullptr);
  return schedule::counted() - before;
}

void expect_few_looks() {
  if (kSanitizer) GTEST_SKIP() << "the limit would hold for the sanitizer's own memory";
  limit_data();
  for (u32 power = 36; power <= 46; ++power) {
    const usize size = usize{1} << power;
    EXPECT_LT(looks_of_refusal(size, kQuantum), kMostLooks) << power;
    EXPECT_LT(looks_of_refusal(size, kQuantum), kMostLooks) << power << " again";
    EXPECT_LT(looks_of_refusal(size, kChunkBytes), kMostLooks) << power << " aligned";
  }
}

// issue 16: 2^38 bytes took 14 to 134 ms.
FRESH_TEST(RefusalSteps, AreFewInAVastArena) {
  start_ground(usize{1} << 44);
  expect_few_looks();
}

FRESH_TEST(RefusalSteps, AreFewWhereFurtherArenasCouldBeMade) {
  start_ground(64 * kMiB);
  ASSERT_NE(try_to_allocate(100 * kMiB, kQuantum), nullptr);
  expect_few_looks();
}

FRESH_TEST(RefusalSteps, AreFewAmongTenThousandBlocks) {
  start_ground(usize{1} << 44);
  for (u32 i = 0; i < 10'000; ++i) ASSERT_NE(try_to_allocate(2 * kMiB + 1, kQuantum), nullptr);
  expect_few_looks();
}

FRESH_TEST(RefusalSteps, OfGrowthAreFew) {
  if (kSanitizer) GTEST_SKIP() << "as above";
  start_ground(usize{1} << 44);
  void* const block = try_to_allocate(3 * kMiB, kQuantum);
  ASSERT_NE(block, nullptr);
  limit_data();
  for (u32 power = 36; power <= 46; ++power) {
    const u64 before = schedule::counted();
    const uptr address = reinterpret_cast<uptr>(block);
    EXPECT_EQ(resize_large(block, slice_record(arena_of(address), address), usize{1} << power), nullptr);
    EXPECT_LT(schedule::counted() - before, kMostLooks) << power;
  }
}

}  // namespace
}  // namespace coffer
