// SPDX-License-Identifier: MIT
// os/fake itself: it refuses what it is told to refuse and nothing else.
#include "os/fake/fake.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace coffer::os::fake {
namespace {

Faults fault(u64 nth, Duration duration, u32 kinds = kAllKinds, Damage damage = Damage::none) {
  Faults faults;
  faults.nth = nth;
  faults.duration = duration;
  faults.kinds = kinds;
  faults.damage = damage;
  return faults;
}

class Fake : public testing::Test {
 protected:
  void SetUp() override {
    set_faults({});
    memory_ = static_cast<unsigned char*>(reserve(kLength, page_size()));
    ASSERT_NE(memory_, nullptr);
  }
  void TearDown() override {
    set_faults({});
    set_address_space(0);
    set_clock(0);
    set_processors(kReal);
    set_current_processor(kReal);
    release(memory_, kLength);
  }

  const usize kLength = 8 * page_size();
  unsigned char* memory_ = nullptr;
};

// So a page size that the allocator takes for a smaller one is found (COFFER_FAKE_PAGE).
TEST_F(Fake, EndsTheTestWhereACallIsNotOfWholePages) {
  const usize half = page_size() / 2;
  EXPECT_DEATH(commit(memory_ + half, page_size()), "os/fake: commit of .* pages have");
  EXPECT_DEATH(purge(memory_, half), "os/fake: purge");
  EXPECT_DEATH(decommit(memory_, page_size() + half), "os/fake: decommit");
  EXPECT_DEATH(move_pages(memory_, memory_ + half, page_size()), "os/fake: move_pages");
}

TEST_F(Fake, FailsTheNthCallOnce) {
  set_faults(fault(3, Duration::once));
  EXPECT_TRUE(commit(memory_, kLength));
  EXPECT_TRUE(purge(memory_, kLength));
  EXPECT_FALSE(commit(memory_, kLength));
  EXPECT_TRUE(commit(memory_, kLength));
  EXPECT_EQ(counted_calls(), 4u);
  EXPECT_EQ(failed_calls(), 1u);
}

TEST_F(Fake, FailsFromThenOnUntilStopped) {
  set_faults(fault(2, Duration::from_then_on));
  EXPECT_TRUE(commit(memory_, kLength));
  EXPECT_FALSE(purge(memory_, kLength));
  EXPECT_FALSE(remap(memory_, kLength));
  EXPECT_EQ(reserve(kLength, page_size()), nullptr);
  stop_faults();
  EXPECT_TRUE(remap(memory_, kLength));
  EXPECT_EQ(failed_calls(), 3u);
}

TEST_F(Fake, CountsOnlyTheKindsNamed) {
  set_faults(fault(1, Duration::from_then_on, kPurge | kRemap));
  EXPECT_TRUE(commit(memory_, kLength));
  EXPECT_EQ(counted_calls(), 0u);
  EXPECT_FALSE(purge(memory_, kLength));
  EXPECT_FALSE(remap(memory_, kLength));
  EXPECT_EQ(counted_calls(), 2u);
}

TEST_F(Fake, ARefusedCallChangesNothing) {
  ASSERT_TRUE(commit(memory_, kLength));
  std::memset(memory_, 7, kLength);
  set_faults(fault(1, Duration::from_then_on));
  EXPECT_FALSE(purge(memory_, kLength));
  EXPECT_FALSE(remap(memory_, kLength));
  EXPECT_FALSE(move_pages(memory_, memory_ + kLength / 2, kLength / 2));
  for (usize i = 0; i < kLength; ++i) ASSERT_EQ(memory_[i], 7);
}

TEST_F(Fake, ATornPurgeClearsTheFirstHalf) {
  ASSERT_TRUE(commit(memory_, kLength));
  std::memset(memory_, 7, kLength);
  set_faults(fault(1, Duration::once, kPurge, Damage::torn));
  EXPECT_FALSE(purge(memory_, kLength));
  EXPECT_EQ(memory_[0], 0);
  EXPECT_EQ(memory_[kLength / 2 - 1], 0);
  EXPECT_EQ(memory_[kLength / 2], 7);
}

TEST_F(Fake, FailsAtRandomAboutAsOftenAsSaid) {
  Faults faults;
  faults.one_in = 4;
  set_faults(faults);
  u32 failed = 0;
  for (int i = 0; i < 1000; ++i) failed += commit(memory_, kLength) ? 0 : 1;
  EXPECT_GT(failed, 150u);
  EXPECT_LT(failed, 350u);
  EXPECT_EQ(failed_calls(), failed);
  stop_faults();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(commit(memory_, kLength));
}

TEST_F(Fake, JitterChangesNoAnswer) {
  set_jitter(true);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(commit(memory_, kLength));
  set_faults(fault(1, Duration::once));
  EXPECT_FALSE(commit(memory_, kLength));
  set_jitter(false);
}

TEST_F(Fake, AddressSpaceIsLimited) {
  const usize before = reserved_bytes();
  set_address_space(before + 2 * kLength);
  EXPECT_EQ(reservation_limit(usize{1} << 40), 2 * kLength);
  EXPECT_EQ(reserve(3 * kLength, page_size()), nullptr);
  void* const got = reserve(2 * kLength, page_size());
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(reserve(page_size(), page_size()), nullptr);
  release(got, 2 * kLength);
  EXPECT_EQ(reserved_bytes(), before);
}

TEST_F(Fake, ClockAndProcessors) {
  set_clock(42);
  EXPECT_EQ(monotonic_ns(), 42u);
  EXPECT_EQ(coarse_ns(), 42u);
  set_clock(0);
  EXPECT_GT(monotonic_ns(), 42u);
  EXPECT_GT(coarse_ns(), 42u);
  set_processors(64);
  set_current_processor(63);
  EXPECT_EQ(processors(), 64u);
  EXPECT_EQ(current_processor(), 63u);
  set_current_processor(kRoaming);
  u64 seen = 0;
  for (int i = 0; i < 2000; ++i) seen |= u64{1} << current_processor();
  EXPECT_EQ(seen, ~u64{0});
}

TEST_F(Fake, CountsEachKind) {
  const u64 before = calls_of(kCommit);
  commit(memory_, kLength);
  commit(memory_, kLength);
  EXPECT_EQ(calls_of(kCommit), before + 2);
}

}  // namespace
}  // namespace coffer::os::fake
