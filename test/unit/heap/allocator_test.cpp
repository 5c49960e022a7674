// SPDX-License-Identifier: MIT
// Coffer as the API shim sees it: content, alignment, realloc, trim.
#include "heap/allocator.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "heap/refill.hpp"
#include "heaps.hpp"
#include "large/large.hpp"
#include "os/probe.hpp"
#include "pool/age.hpp"
#include "sleeper.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr usize kSizes[] = {0, 1, 8, 16, 17, 100, 1024, 5000, 32 * 1024, 32 * 1024 + 1, 200'000, 1 << 20, 3 << 20};

void fill(void* block, unsigned char value, usize bytes) { std::memset(block, value, bytes); }

// --- Zeroed. ---

FRESH_TEST(Zeroed, AFreshBlockIsZeroAndAUsedOneIsMadeSo) {
  start_heaps();
  for (const usize size : kSizes) {
    for (u32 round = 0; round < 3; ++round) {
      void* block = Allocator::allocate_zeroed(size);
      ASSERT_NE(block, nullptr);
      ASSERT_TRUE(all_bytes(block, size, 0)) << size << " in round " << round;
      fill(block, 0xff, Allocator::usable_size(block));
      give(block);
    }
  }
}

// All ways to a block: the heap's list, the local list, others' frees, an absent page, an orphan.
FRESH_TEST(Zeroed, WhereverTheBlockComesFrom) {
  start_heaps();
  const auto all_zero = [](u32 count) {
    for (u32 i = 0; i < count; ++i) {
      void* block = Allocator::allocate_zeroed(kSize);
      ASSERT_TRUE(all_bytes(block, kSize, 0)) << i;
      fill(block, 0xff, kSize);
    }
  };
  Blocks left;
  Worker other;
  other.run([&] {
    left = take_many(kCapacity);
    for (void* block : left) fill(block, 0xff, kSize);
    give_many(left, 0, 8);
  });
  other.end();
  Blocks mine = take_many(kCapacity + kBlocksPerPage);
  for (void* block : mine) fill(block, 0xff, kSize);
  give_many(mine, 0, kThreshold + 1);
  give_now(left, 8, 16);
  give_many(mine, kCapacity, kCapacity + 2);
  all_zero(kCapacity + 40);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Zeroed, TouchesNothingOfAFreshBlock) {
  start_heaps();
  void* block = Allocator::allocate_zeroed(8 << 20);
  EXPECT_EQ(resident_pages(block, 8 << 20), 0u);
  void* slices = Allocator::allocate_zeroed(500'000);
  EXPECT_EQ(resident_pages(slices, round_down(500'000, os::page_size())), 0u);
}

// --- Aligned. ---

FRESH_TEST(Aligned, EverySizeAtEveryAlignment) {
  start_heaps();
  for (const usize size : kSizes) {
    for (usize alignment = 1; alignment <= (usize{32} << 20); alignment *= 2) {
      Blocks blocks;
      for (u32 i = 0; i < 3; ++i) {
        void* block = Allocator::allocate_aligned(size, alignment);
        ASSERT_NE(block, nullptr) << size << " aligned to " << alignment;
        ASSERT_EQ(reinterpret_cast<uptr>(block) % alignment, 0u) << size << " aligned to " << alignment;
        ASSERT_GE(Allocator::usable_size(block), size);
        if (size > 0) fill(block, static_cast<unsigned char>(i), size);
        blocks.push_back(block);
      }
      for (u32 i = 0; i < 3; ++i) ASSERT_TRUE(all_bytes(blocks[i], size, static_cast<unsigned char>(i)));
      give_many(blocks);
    }
  }
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Aligned, ImpossibleAlignmentsFail) {
  start_heaps();
  EXPECT_EQ(Allocator::allocate_aligned(16, usize{1} << 62), nullptr);
  EXPECT_EQ(Allocator::allocate_aligned(~usize{0} >> 1, 4096), nullptr);
  EXPECT_EQ(Allocator::allocate(~usize{0} >> 1), nullptr);
  EXPECT_EQ(Allocator::allocate_zeroed(~usize{0} >> 1), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

// --- realloc. ---

FRESH_TEST(Reallocate, KeepsTheContentFromAnySizeToAny) {
  start_heaps();
  for (const usize from : kSizes) {
    for (const usize to : kSizes) {
      if (to == 0) continue;
      void* block = Allocator::allocate(from);
      const usize common = from < to ? from : to;
      for (usize i = 0; i < from; ++i) static_cast<unsigned char*>(block)[i] = static_cast<unsigned char>(i * 7 + 1);
      block = Allocator::reallocate(block, to);
      ASSERT_NE(block, nullptr);
      ASSERT_GE(Allocator::usable_size(block), to);
      usize wrong = 0;
      for (usize i = 0; i < common; ++i) {
        wrong += static_cast<unsigned char*>(block)[i] != static_cast<unsigned char>(i * 7 + 1) ? 1 : 0;
      }
      ASSERT_EQ(wrong, 0u) << from << " to " << to;
      fill(block, 0xff, to);
      give(block);
    }
  }
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Reallocate, StaysWhileMoreThanHalfIsUsed) {
  start_heaps();
  void* block = Allocator::allocate(kSize);
  EXPECT_EQ(Allocator::reallocate(block, kSize), block);
  EXPECT_EQ(Allocator::reallocate(block, kSize / 2), block);
  void* smaller = Allocator::reallocate(block, kSize / 2 - 1);
  EXPECT_NE(smaller, block);
  EXPECT_EQ(Allocator::usable_size(smaller), kSize / 2);
}

FRESH_TEST(Reallocate, ThatFailsLeavesTheBlock) {
  constexpr usize kTooLarge = usize{1} << 32;
  start_heaps();
  void* block = Allocator::allocate(kSize);
  fill(block, 7, kSize);
  os::fake::set_address_space(1);
  EXPECT_EQ(Allocator::reallocate(block, kTooLarge), nullptr);
  EXPECT_TRUE(all_bytes(block, kSize, 7));
  void* large = Allocator::allocate(3 << 20);
  fill(large, 7, 3 << 20);
  EXPECT_EQ(Allocator::reallocate(large, kTooLarge), nullptr);
  EXPECT_TRUE(all_bytes(large, 3 << 20, 7));
  EXPECT_EQ(check_everything(), 0u);
}

// Whatever the kernel says: a block that shrinks needs nothing.
FRESH_TEST(Reallocate, ThatShrinksNeverFails) {
  start_heaps(0, usize{8} << 20);
  void* small = Allocator::allocate(kSize);
  void* wide = Allocator::allocate(30'000);
  void* slices = Allocator::allocate(300'000);
  fill(small, 7, kSize);
  fill(wide, 7, 30'000);
  fill(slices, 7, 300'000);
  exhaust_slices();
  // Every block that is left of the smaller classes, too.
  for (ClassIndex c = 0; c < kClasses; ++c) {
    bool zero = false;
    while (allocate_of_class(c, &zero) != nullptr) {
    }
  }
  void* shrunk = Allocator::reallocate(small, 16);
  ASSERT_NE(shrunk, nullptr);
  EXPECT_TRUE(all_bytes(shrunk, 16, 7));
  shrunk = Allocator::reallocate(wide, 100);
  ASSERT_NE(shrunk, nullptr);
  EXPECT_TRUE(all_bytes(shrunk, 100, 7));
  shrunk = Allocator::reallocate(slices, 100);
  ASSERT_NE(shrunk, nullptr);
  EXPECT_TRUE(all_bytes(shrunk, 100, 7));
  EXPECT_EQ(check_everything(), 0u);
}

// --- The rest. ---

FRESH_TEST(UsableSize, IsThatOfTheClass) {
  start_heaps();
  for (usize size = 0; size <= kLargestSmall; size += 7) {
    void* block = Allocator::allocate(size);
    ASSERT_EQ(Allocator::usable_size(block), class_bytes(class_of(size)));
    give(block);
  }
  void* slices = Allocator::allocate(kLargestSmall + 1);
  EXPECT_EQ(Allocator::usable_size(slices), 3 * kSliceBytes);
  void* chunks = Allocator::allocate(kLargestSliceRun + 1);
  EXPECT_EQ(Allocator::usable_size(chunks), kLargestSliceRun + kCarvePage);
}

FRESH_TEST(Trim, GivesEverythingFreeBack) {
  start_heaps();
  const Blocks blocks = take_many(200);
  for (void* block : blocks) fill(block, 7, kSize);
  void* large = take(4 << 20);
  fill(large, 7, 4 << 20);
  give(large);
  give_many(blocks);
  EXPECT_TRUE(Allocator::trim(0));
  EXPECT_EQ(counters().dirty.load(relaxed), 0u);
  EXPECT_EQ(held_bytes(), 0u) << "hot spans without a live block go, too";
  EXPECT_FALSE(Allocator::trim(0)) << "nothing is left";
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_NE(take(), nullptr);
}

// Spans are listed, and looked at, though there is no other heap that could use them.
FRESH_TEST(Trim, GivesBackTheIdlePagesInsideTheSpansOfTheOnlyThread) {
  start_heaps();
  const Blocks blocks = take_many(8 * kCapacity);
  for (u32 i = 0; i < 8 * kCapacity; ++i) {
    if (i % kCapacity != 0) give(blocks[i]);
  }
  Statistics before, after;
  collect_statistics(before);
  EXPECT_TRUE(Allocator::trim(0));
  collect_statistics(after);
  EXPECT_EQ(before.live, after.live);
  EXPECT_GE(before.resident, 8 * kSliceBytes);
  EXPECT_EQ(after.resident, 8 * kCarvePage) << "one page of each span has a live block";
  EXPECT_EQ(check_everything(), 0u);
}

usize resident_bytes() {
  Statistics statistics;
  Allocator::statistics(statistics);
  return statistics.resident;
}

FRESH_TEST(Trim, GivesBackPagesInsideTheSpansThatOthersKeep) {
  constexpr u32 kSpans = 20;
  start_heaps(usize{1} << 20);
  own_heap();
  Sleeper sleeper;
  const std::vector<Blocks> spans = sleeper.fill(kSpans);
  sleeper.thread.run([&] {
    for (const Blocks& blocks : spans) {
      fill(blocks[0], 7, kSize);
      give_many(blocks, 1);
    }
  });
  ASSERT_EQ(reusable_of(sleeper.heap).size(), kSpans);
  const usize before = resident_bytes();
  EXPECT_TRUE(Allocator::trim(0));
  EXPECT_LE(resident_bytes(), before - usize{kSpans} * (kPagesPerSlice - 1) * kCarvePage);
  EXPECT_FALSE(Allocator::trim(0)) << "nothing is left";
  EXPECT_EQ(check_everything(), 0u);
  sleeper.thread.run([&] {
    for (const Blocks& blocks : spans) {
      EXPECT_TRUE(all_bytes(blocks[0], kSize, 7));
      give(blocks[0]);
    }
    give(take());
  });
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Trim, KeepsWhatItIsToldToKeep) {
  start_heaps();
  void* large = take(1 << 20);
  give(large);
  ASSERT_EQ(counters().dirty.load(relaxed), usize{1} << 20);
  EXPECT_FALSE(Allocator::trim(1 << 20));
  EXPECT_TRUE(Allocator::trim((1 << 20) - 1));
  EXPECT_EQ(counters().dirty.load(relaxed), (usize{1} << 20) - kSliceBytes);
}

// --- Option align. ---

// Whatever a block comes from: a class's span, a hole of any size, a run of slices or chunks.
void check_lines(config::MixedPolicy mixed) {
  start_heaps();
  changeable_options().align = config::AlignPolicy::all;
  changeable_options().placement = config::PlacementPolicy::index;
  changeable_options().colour = true;
  changeable_options().mixed = mixed;
  span_choices_start();
  Blocks blocks;
  for (u32 round = 0; round < 3; ++round) {
    for (usize size = kCacheLine; size <= 80'000; size += size < 5000 ? 1 : 1009) {
      void* block = Allocator::allocate(size);
      ASSERT_NE(block, nullptr) << size;
      ASSERT_EQ(reinterpret_cast<uptr>(block) % kCacheLine, 0u) << size;
      ASSERT_GE(Allocator::usable_size(block), size);
      fill(block, 1, size);
      blocks.push_back(block);
      // Small ones leave holes that are no multiple of a line.
      blocks.push_back(Allocator::allocate(size % 48 + 1));
    }
    for (usize i = 0; i < blocks.size(); i += 2) give(blocks[i + round % 2]);
    Blocks left;
    for (usize i = 0; i < blocks.size(); i += 2) left.push_back(blocks[i + 1 - round % 2]);
    give_many(left, 0, static_cast<u32>(left.size()));
    blocks.clear();
  }
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(AlignAll, BlocksOfClassesStartOnLines) { check_lines(config::MixedPolicy::never); }
FRESH_TEST(AlignAll, BlocksOfASmallProcessStartOnLines) { check_lines(config::MixedPolicy::automatic); }
FRESH_TEST(AlignAll, BlocksFromHolesStartOnLines) { check_lines(config::MixedPolicy::always); }

FRESH_TEST(Trim, GivesTailsOfLargeBlocksBack) {
  start_heaps();
  void* const longer = Allocator::allocate(2 * kChunkBytes);
  std::memset(longer, 1, 2 * kChunkBytes);
  Allocator::deallocate(longer);
  void* const block = Allocator::allocate(kChunkBytes + 1);
  EXPECT_EQ(block, longer);
  EXPECT_GT(resident_tails(), 0u);
  EXPECT_TRUE(Allocator::trim(0));
  EXPECT_EQ(resident_tails(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
