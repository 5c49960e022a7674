// SPDX-License-Identifier: MIT
// os/linux against the contract in os/os.hpp.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <thread>

#include "base/bits.hpp"
#include "os/os.hpp"
#include "os/probe.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr int kMark = 4242;  // a value of errno that no call sets
constexpr usize kMiB = 1024 * 1024;

class Memory : public testing::Test {
 protected:
  static constexpr usize kLength = 8 * kMiB;

  void SetUp() override {
    memory_ = static_cast<unsigned char*>(os::reserve(kLength, 2 * kMiB));
    ASSERT_NE(memory_, nullptr);
    // Fixed page by page: the tests count pages.
    os::advise_huge_pages(memory_, kLength, os::HugePages::forbid);
    errno = kMark;
  }
  void TearDown() override {
    EXPECT_EQ(errno, kMark) << "a call changed errno";
    os::release(memory_, kLength);
    EXPECT_EQ(errno, kMark) << "release changed errno";
  }

  const usize page_ = os::page_size();
  unsigned char* memory_ = nullptr;
};

// Kernel answers that the tests ask for beside the calls under test.
template <class Question>
auto ask(Question question) {
  const int saved = errno;
  const auto answer = question();
  errno = saved;
  return answer;
}

TEST(Page, SizeIsTheKernels) {
  EXPECT_TRUE(is_power_of_two(os::page_size()));
  EXPECT_EQ(os::page_size(), static_cast<usize>(sysconf(_SC_PAGESIZE)));
}

TEST(Reserve, GivesAlignedMemoryWithoutAccess) {
  for (usize alignment = 4096; alignment <= 256 * kMiB; alignment *= 4) {
    errno = kMark;
    void* const got = os::reserve(3 * kMiB, alignment);
    EXPECT_EQ(errno, kMark);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(reinterpret_cast<uptr>(got) % alignment, 0u);
    EXPECT_TRUE(has_access(got, 3 * kMiB, "---p"));
    os::release(got, 3 * kMiB);
    EXPECT_TRUE(mappings_of(got, 3 * kMiB).empty());
  }
}

TEST(Reserve, LeavesNoPaddingBehind) {
  const usize before = status_bytes("VmSize");
  void* const got = os::reserve(4 * kMiB, 64 * kMiB);
  ASSERT_NE(got, nullptr);
  EXPECT_LT(status_bytes("VmSize"), before + 8 * kMiB);
  os::release(got, 4 * kMiB);
}

TEST(Reserve, LargeOnesCostNoMemory) {
  if (kSanitizer) GTEST_SKIP() << "the address space belongs to the sanitizer";
  const usize length = usize{1} << 40;
  void* const got = os::reserve(length, 2 * kMiB);
  ASSERT_NE(got, nullptr);
  EXPECT_TRUE(os::commit(got, 4 * kMiB));
  os::release(got, length);
}

TEST(Reserve, RefusesWhatCannotBe) {
  errno = kMark;
  EXPECT_EQ(os::reserve(usize{1} << 56, 2 * kMiB), nullptr);
  EXPECT_EQ(os::reserve(round_down(~usize{0}, 4096), 2 * kMiB), nullptr);  // length and padding overflow
  EXPECT_EQ(os::reserve(4 * kMiB, usize{1} << 60), nullptr);
  EXPECT_EQ(errno, kMark);
}

TEST_F(Memory, ReleaseOfAPartLeavesTheRest) {
  ASSERT_TRUE(os::commit(memory_, kLength));
  memory_[0] = memory_[kLength - 1] = 5;
  os::release(memory_ + 2 * kMiB, 2 * kMiB);
  EXPECT_TRUE(ask([&] { return mappings_of(memory_ + 2 * kMiB, 2 * kMiB).empty(); }));
  EXPECT_EQ(memory_[0], 5);
  EXPECT_EQ(memory_[kLength - 1], 5);
}

TEST_F(Memory, CommitGivesZeroedMemory) {
  ASSERT_TRUE(os::commit(memory_ + kMiB, 2 * kMiB));
  EXPECT_TRUE(all_bytes(memory_ + kMiB, 2 * kMiB, 0));
  std::memset(memory_ + kMiB, 1, 2 * kMiB);
  EXPECT_TRUE(ask([&] { return has_access(memory_, kMiB, "---p"); }));
  EXPECT_TRUE(ask([&] { return has_access(memory_ + kMiB, 2 * kMiB, "rw-p"); }));
  EXPECT_TRUE(ask([&] { return has_access(memory_ + 3 * kMiB, kLength - 3 * kMiB, "---p"); }));
}

TEST_F(Memory, CommitTouchesNothing) {
  ASSERT_TRUE(os::commit(memory_, kLength));
  EXPECT_EQ(ask([&] { return resident_pages(memory_, kLength); }), 0u);
}

TEST_F(Memory, CommitTwiceKeepsTheContent) {
  ASSERT_TRUE(os::commit(memory_, kMiB));
  std::memset(memory_, 7, kMiB);
  ASSERT_TRUE(os::commit(memory_, kMiB));
  ASSERT_TRUE(os::commit(memory_, 2 * kMiB));
  EXPECT_TRUE(all_bytes(memory_, kMiB, 7));
  EXPECT_TRUE(all_bytes(memory_ + kMiB, kMiB, 0));
}

TEST_F(Memory, CommittedNeighboursMerge) {
  for (usize at = 0; at < kLength; at += kMiB) ASSERT_TRUE(os::commit(memory_ + at, kMiB));
  EXPECT_EQ(ask([&] { return mappings_of(memory_, kLength).size(); }), 1u);
}

// Core files leave out what is only reserved, and nothing else; and the flag parts no mappings.
TEST_F(Memory, ReservedIsLeftOutOfCoreFiles) {
  const auto flags = [&] { return ask([&] { return dump_flags_of(memory_, kLength); }); };
  ASSERT_EQ(flags().size(), 1u);
  EXPECT_TRUE(flags()[0].left_out);
  ASSERT_TRUE(os::commit(memory_, 2 * kMiB));
  ASSERT_TRUE(os::commit(memory_ + kMiB, 3 * kMiB));  // in part once more
  ASSERT_EQ(flags().size(), 2u);
  EXPECT_FALSE(flags()[0].left_out);
  EXPECT_EQ(flags()[0].end, reinterpret_cast<uptr>(memory_ + 4 * kMiB));
  EXPECT_TRUE(flags()[1].left_out);
  ASSERT_TRUE(os::purge(memory_, kMiB));
  ASSERT_TRUE(os::remap(memory_ + kMiB, kMiB));
  os::advise_huge_pages(memory_ + kMiB, kMiB, os::HugePages::forbid);  // a new mapping has no advice yet
  ASSERT_EQ(flags().size(), 2u);
  EXPECT_FALSE(flags()[0].left_out);
  ASSERT_TRUE(os::decommit(memory_ + 2 * kMiB, 2 * kMiB));
  ASSERT_EQ(flags().size(), 2u);
  EXPECT_EQ(flags()[0].end, reinterpret_cast<uptr>(memory_ + 2 * kMiB));
  EXPECT_TRUE(flags()[1].left_out);
}

TEST_F(Memory, CommitOfForeignMemoryFails) {
  os::release(memory_ + kMiB, kMiB);
  EXPECT_FALSE(os::commit(memory_ + kMiB, kMiB));
}

TEST_F(Memory, PurgeGivesPagesBackAndReadsAsZero) {
  ASSERT_TRUE(os::commit(memory_, kLength));
  std::memset(memory_, 7, kLength);
  ASSERT_TRUE(os::purge(memory_ + kMiB, 2 * kMiB));
  EXPECT_EQ(ask([&] { return resident_pages(memory_ + kMiB, 2 * kMiB); }), 0u);
  EXPECT_EQ(ask([&] { return resident_pages(memory_, kMiB); }), kMiB / page_);
  EXPECT_TRUE(all_bytes(memory_, kMiB, 7));
  EXPECT_TRUE(all_bytes(memory_ + kMiB, 2 * kMiB, 0));
  EXPECT_TRUE(all_bytes(memory_ + 3 * kMiB, kLength - 3 * kMiB, 7));
  memory_[kMiB] = 1;
  EXPECT_EQ(memory_[kMiB], 1);
}

TEST_F(Memory, GrowKeepsTheContentAndCommitsTheRest) {
  auto* mapping = static_cast<unsigned char*>(os::reserve(2 * kMiB, page_));
  ASSERT_NE(mapping, nullptr);
  ASSERT_TRUE(os::commit(mapping, 2 * kMiB));
  for (usize i = 0; i < 2 * kMiB; i += 8) *reinterpret_cast<u64*>(mapping + i) = i * 3 + 1;
  auto* grown = static_cast<unsigned char*>(os::grow(mapping, 2 * kMiB, 64 * kMiB));
  ASSERT_NE(grown, nullptr);
  for (usize i = 0; i < 2 * kMiB; i += 8) ASSERT_EQ(*reinterpret_cast<u64*>(grown + i), i * 3 + 1);
  EXPECT_TRUE(all_bytes(grown + 2 * kMiB, 62 * kMiB, 0));
  EXPECT_TRUE(ask([&] { return has_access(grown, 64 * kMiB, "rw-p"); }));
  EXPECT_EQ(os::grow(grown, 64 * kMiB, usize{1} << 50), nullptr);  // more than there is address space for
  EXPECT_EQ(*reinterpret_cast<u64*>(grown + 8), 25u);
  os::release(grown, 64 * kMiB);
}

// What one thread's reservation moved away from, another's may move to: under ThreadSanitizer, which does not know
// mremap, the two must be ordered by what it does know.
TEST(Grow, WhatMovesAwayLeavesRoomForOtherThreads) {
  const usize page = os::page_size();
  const auto grow_and_release = [page] {
    for (int round = 0; round < 1000; ++round) {
      usize length = page;
      void* memory = os::map(length, page);
      while (memory != nullptr && length < 16 * page) {
        *static_cast<usize*>(memory) = length;
        memory = os::grow(memory, length, 2 * length);
        if (memory == nullptr) break;
        if (*static_cast<usize*>(memory) != length) ADD_FAILURE() << "lost while it grew from " << length;
        length *= 2;
      }
      ASSERT_NE(memory, nullptr);
      os::release(memory, length);
    }
  };
  std::thread threads[4];
  for (std::thread& thread : threads) thread = std::thread(grow_and_release);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Memory, MovePagesMovesTheContent) {
  ASSERT_TRUE(os::commit(memory_, kLength));
  for (usize i = 0; i < 2 * kMiB; i += 8) *reinterpret_cast<u64*>(memory_ + i) = i * 3 + 1;
  std::memset(memory_ + 4 * kMiB, 9, 2 * kMiB);  // is overwritten
  if (!os::move_pages(memory_, memory_ + 4 * kMiB, 2 * kMiB)) GTEST_SKIP() << "this kernel cannot";
  for (usize i = 0; i < 2 * kMiB; i += 8) ASSERT_EQ(*reinterpret_cast<u64*>(memory_ + 4 * kMiB + i), i * 3 + 1);
  EXPECT_TRUE(all_bytes(memory_, 2 * kMiB, 0));
  EXPECT_TRUE(ask([&] { return has_access(memory_, kLength, "rw-p"); }));
  std::memset(memory_, 2, kLength);
}

TEST_F(Memory, MovePagesOfUntouchedMemory) {
  ASSERT_TRUE(os::commit(memory_, kLength));
  memory_[page_] = 3;
  if (!os::move_pages(memory_, memory_ + 2 * kMiB, 2 * kMiB)) GTEST_SKIP() << "this kernel cannot";
  EXPECT_EQ(memory_[2 * kMiB + page_], 3);
  EXPECT_EQ(ask([&] { return resident_pages(memory_ + 2 * kMiB, 2 * kMiB); }), 1u);
}

TEST_F(Memory, MovePagesFailsWithoutMoving) {
  ASSERT_TRUE(os::commit(memory_, kLength));
  std::memset(memory_, 7, kMiB);
  // Ranges that overlap are no move.
  EXPECT_FALSE(os::move_pages(memory_, memory_ + page_, kMiB));
  EXPECT_TRUE(all_bytes(memory_, kMiB, 7));
  EXPECT_TRUE(all_bytes(memory_ + kMiB, kMiB, 0));
}

TEST_F(Memory, RemapMergesAgainAfterAMove) {
  ASSERT_TRUE(os::commit(memory_, kLength));
  std::memset(memory_, 7, kLength);
  if (!os::move_pages(memory_, memory_ + 4 * kMiB, 2 * kMiB)) GTEST_SKIP() << "this kernel cannot";
  EXPECT_GT(ask([&] { return mappings_of(memory_, kLength).size(); }), 1u);
  ASSERT_TRUE(os::remap(memory_ + 4 * kMiB, 2 * kMiB));
  os::advise_huge_pages(memory_ + 4 * kMiB, 2 * kMiB, os::HugePages::forbid);  // a new mapping has no advice yet
  EXPECT_EQ(ask([&] { return mappings_of(memory_, kLength).size(); }), 1u);
  EXPECT_TRUE(all_bytes(memory_ + 4 * kMiB, 2 * kMiB, 0));
  EXPECT_TRUE(all_bytes(memory_ + 2 * kMiB, 2 * kMiB, 7));
  EXPECT_TRUE(all_bytes(memory_ + 6 * kMiB, 2 * kMiB, 7));
}

TEST_F(Memory, AdviceAndNamesFailSilently) {
  os::name_mapping(memory_, kLength, "coffer test");
  os::advise_huge_pages(memory_, kLength, os::HugePages::allow);
  os::advise_huge_pages(memory_, kLength, os::HugePages::forbid);
  os::release(memory_ + 4 * kMiB, 4 * kMiB);
  os::name_mapping(memory_ + 4 * kMiB, kMiB, "coffer test");
  os::advise_huge_pages(memory_ + 4 * kMiB, kMiB, os::HugePages::allow);
  const auto mappings = ask([&] { return mappings_of(memory_, kMiB); });
  ASSERT_EQ(mappings.size(), 1u);
  if (mappings[0].name.empty()) GTEST_SKIP() << "this kernel names no mappings";
  EXPECT_EQ(mappings[0].name, "[anon:coffer test]");
}

TEST_F(Memory, CallsAreCounted) {
  const u64 before = os::call_count();
  ASSERT_TRUE(os::commit(memory_, kMiB));
  ASSERT_TRUE(os::purge(memory_, kMiB));
  EXPECT_GE(os::call_count(), before + 2);
}

TEST(Processors, AreThoseThisProcessMayUse) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  errno = kMark;
  EXPECT_EQ(os::processors(), static_cast<u32>(CPU_COUNT(&set)));
  EXPECT_LT(os::current_processor(), static_cast<u32>(CPU_SETSIZE));
  EXPECT_EQ(errno, kMark);
}

TEST(Clock, NeverStepsBack) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  u64 last = static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
  for (int i = 0; i < 1000; ++i) {
    const u64 next = os::monotonic_ns();
    ASSERT_GE(next, last);
    last = next;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_GE(os::monotonic_ns(), last + 2'000'000);
}

TEST(Random, SeedsDiffer) {
  const u64 one = os::random_seed(), two = os::random_seed();
  EXPECT_NE(one, two);
}

TEST(Process, IsNotElevatedAndYields) {
  EXPECT_FALSE(os::elevated());
  errno = kMark;
  os::yield();
  EXPECT_EQ(errno, kMark);
}

TEST(WriteError, WritesAllOfALongText) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string text(300'000, 'x');  // more than a pipe holds
  const int saved = dup(STDERR_FILENO);
  std::string got;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) got.append(buffer, static_cast<usize>(n));
  });
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  os::write_error(text.data(), text.size());
  dup2(saved, STDERR_FILENO);
  close(saved);
  reader.join();
  close(ends[0]);
  EXPECT_TRUE(got == text) << got.size();
}

TEST(WriteError, GivesUpOnAClosedStderr) {
  EXPECT_EQ(in_child([] {
              close(STDERR_FILENO);
              errno = kMark;
              os::write_error("lost\n", 5);
              return errno == kMark ? 0 : 1;
            }),
            0);
}

TEST(AssertionDeathTest, SaysWhereAndWhat) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(COFFER_ASSERT(1 + 1 == 3), "coffer: assertion failed: 1 \\+ 1 == 3 at .*linux_test.cpp:[0-9]+");
  COFFER_ASSERT(1 + 1 == 2);
}

}  // namespace
}  // namespace coffer
