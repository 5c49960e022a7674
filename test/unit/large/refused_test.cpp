// SPDX-License-Identifier: MIT
// Requests that the kernel or the limit refuses: they end after a try or two, and leave nothing behind. (How little is
// looked at: interleavings/steps_test.cpp.)
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "budget/budget.hpp"
#include "fresh.hpp"
#include "large/blocks.hpp"
#include "os/fake/fake.hpp"
#include "pool/limit.hpp"
#include "support/build.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

constexpr u32 kLeastPower = 36;
constexpr u32 kMostPower = 46;

// Calls that make memory writable, and reservations that are halved until one is granted, for one request.
constexpr u64 kMostTries = 4;
constexpr u64 kMostReservations = 24;

// What a refused request must leave as it was.
struct Remains {
  usize frontier, highest, arenas, metadata, committed, charged, reserved;
  bool operator==(const Remains&) const = default;
};
Remains remains() {
  return {first_arena().frontier.load(relaxed),
          first_arena().highest_chunk.load(relaxed),
          g_arenas.count.load(relaxed),
          counters().metadata.load(relaxed),
          counters().committed.load(relaxed),
          budget().charged.load(relaxed),
          fake::reserved_bytes()};
}

// The kernel refuses what is more than the process can have, but not the records of so much.
void refuse_memory() {
  const rlimit limit = {rlim_t{4} << 30, RLIM_INFINITY};
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
}

template <class Request>
void expect_quick_refusal(Request&& request) {
  const Remains before = remains();
  const u64 tries = fake::calls_of(fake::kCommit);
  const u64 reservations = fake::calls_of(fake::kReserve);
  EXPECT_EQ(request(), nullptr);
  EXPECT_LE(fake::calls_of(fake::kCommit) - tries, kMostTries);
  EXPECT_LE(fake::calls_of(fake::kReserve) - reservations, kMostReservations);
  EXPECT_TRUE(before == remains());
}

void* try_to_allocate(usize size, usize alignment) {
  bool zero = false;
  return allocate_large(size, alignment, &zero);
}

void expect_quick_refusals() {
  if (kSanitizer) GTEST_SKIP() << "the limit would hold for the sanitizer's own memory";
  void* const block = allocate(3 * kMiB);
  refuse_memory();
  for (u32 power = kLeastPower; power <= kMostPower; ++power) {
    const usize size = usize{1} << power;
    expect_quick_refusal([&] { return try_to_allocate(size, kQuantum); });
    expect_quick_refusal([&] { return try_to_allocate(size, 4 * kChunkBytes); });
    expect_quick_refusal([&] { return try_to_allocate(size, size); });
    expect_quick_refusal([&] { return resize(block, size); });
    EXPECT_FALSE(may_fit_later(size)) << "nor is it asked for again";
  }
  EXPECT_TRUE(free_block(block));
}

FRESH_TEST(Refused, InAVastArena) {
  start_ground(usize{1} << 44);
  expect_quick_refusals();
}

// A block that far up would have every later search walk up to it.
FRESH_TEST(Refused, AlignedFarUp) {
  start_ground(usize{1} << 44);
  const usize before = g_arenas.arenas[0].frontier.load(relaxed);
  for (u32 power = 37; power < 64; ++power) EXPECT_EQ(try_to_allocate(1, usize{1} << power), nullptr) << power;
  EXPECT_EQ(g_arenas.arenas[0].frontier.load(relaxed), before);
}

FRESH_TEST(Refused, InASmallArena) {
  start_ground(64 * kMiB);
  expect_quick_refusals();
}

FRESH_TEST(Refused, WithFurtherArenas) {
  start_ground(64 * kMiB);
  ASSERT_NE(try_to_allocate(100 * kMiB, kQuantum), nullptr);
  ASSERT_EQ(g_arenas.count.load(relaxed), 2u);
  expect_quick_refusals();
}

FRESH_TEST(Refused, WhereNoAddressSpaceIsLeft) {
  start_ground(64 * kMiB);
  fake::set_address_space(fake::reserved_bytes() + 16 * kMiB);
  for (u32 power = kLeastPower; power <= kMostPower; ++power) {
    expect_quick_refusal([&] { return try_to_allocate(usize{1} << power, kQuantum); });
  }
}

// What no purge can make room for is not even asked of the kernel, and nothing is purged for it.
FRESH_TEST(Refused, BeyondTheLimit) {
  start_ground(usize{1} << 44);
  void* const block = allocate(4 * kMiB);
  EXPECT_TRUE(free_block(block));
  void* const small = allocate(3 * kMiB);
  set_limit(64 * kMiB);
  const u64 tries = fake::calls_of(fake::kCommit);
  const usize free = dirty();
  for (u32 power = 26; power <= kMostPower; ++power) {
    expect_quick_refusal([&] { return try_to_allocate(usize{1} << power, kQuantum); });
    expect_quick_refusal([&] { return resize(small, usize{1} << power); });
  }
  EXPECT_EQ(fake::calls_of(fake::kCommit), tries);
  EXPECT_EQ(dirty(), free);
}

// A request that is a little too large for what is left: one try, and what there is can still be had.
FRESH_TEST(Refused, JustOverWhatIsLeft) {
  start_ground(64 * kMiB);
  fake::set_address_space(fake::reserved_bytes());
  void* const block = allocate(30 * kMiB);
  expect_quick_refusal([&] { return try_to_allocate(35 * kMiB, kQuantum); });
  EXPECT_NE(try_to_allocate(33 * kMiB, kQuantum), nullptr);
  EXPECT_TRUE(free_block(block));
}

}  // namespace
}  // namespace coffer
