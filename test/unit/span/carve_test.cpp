// SPDX-License-Identifier: MIT
// Absent pages: the order in which they are carved, what is known to be zero, and which slices a span leaves resident.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "fresh.hpp"
#include "ground.hpp"
#include "observe/counters.hpp"
#include "os/probe.hpp"
#include "pool/slice_pool.hpp"
#include "span/span.hpp"
#include "support/random.hpp"

namespace coffer {
namespace {

using test::cut_page;
using test::first_arena;
using test::start_ground;

// Blocks of the page that is carved next; their links are checked.
std::vector<uptr> carved(Span* span, bool* zero) {
  std::vector<uptr> blocks;
  for (const Block* block = cut_page(span, zero); block != nullptr; block = next_of(block)) {
    blocks.push_back(reinterpret_cast<uptr>(block));
  }
  return blocks;
}

FRESH_TEST(Carved, GoesThroughTheSpanInAddressOrder) {
  start_ground();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    Span* span = make_span(c, nullptr);
    const u32 capacity = span->capacity.get();
    u32 seen = 0;
    for (;;) {
      bool zero = false;
      const std::vector<uptr> blocks = carved(span, &zero);
      if (blocks.empty()) break;
      EXPECT_TRUE(zero);
      // All blocks that start in one page, and no other.
      const uptr page = round_down(blocks[0], kCarvePage);
      for (const uptr block : blocks) {
        ASSERT_EQ(block, reinterpret_cast<uptr>(block_at(span, seen)));
        ASSERT_EQ(round_down(block, kCarvePage), page);
        ++seen;
      }
      const uptr next = reinterpret_cast<uptr>(block_at(span, seen));
      ASSERT_TRUE(round_down(next, kCarvePage) != page || seen == capacity) << "one was forgotten";
      ASSERT_EQ(span->carved.get(), seen);
      ASSERT_EQ(absent_count(span), capacity - seen);
      ASSERT_EQ(span->absent.get() >> ((page - span_start(span)) / kCarvePage) & 1, 0u);
    }
    EXPECT_EQ(seen, capacity) << "class " << c;
    EXPECT_EQ(span->absent.get(), 0u);
    bool zero = false;
    EXPECT_EQ(cut_page(span, &zero), nullptr);
    end_span(span);
    purge_free(~usize{0} / 2);  // the next class shall find it fresh
  }
}

// The program, and not malloc, takes the page fault.
FRESH_TEST(Carved, WritesNothingToABlockAlone) {
  start_ground();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    Span* span = make_span(c, nullptr);
    if (span->block_bytes.get() >= kCarvePage) {
      bool zero = false;
      const Linked blocks = carve_blocks(span, &zero);
      ASSERT_NE(blocks.first, nullptr);
      EXPECT_EQ(blocks.first, blocks.last);
      EXPECT_TRUE(zero);
      EXPECT_EQ(blocks.first->link, nullptr);
      EXPECT_EQ(blocks.first->mark, 0u);
    }
    end_span(span);
    purge_free(~usize{0} / 2);
  }
}

// Blocks that one carved is to give where all slices are resident, but for the span's first.
u32 wanted_at_once(const Span* span) {
  const u32 blocks = 64 * 1024 / span->block_bytes.get();
  return blocks < 1 ? 1 : blocks < 8 ? blocks : 8;
}

FRESH_TEST(Carved, OfSlicesThatHoldOldDataGivesSeveralBlocksAtOnce) {
  start_ground();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    Span* span = make_span(c, nullptr);
    bool zero = false;
    while (!carved(span, &zero).empty()) {
    }
    end_span(span);
    for (const Start start : {Start::first, Start::coloured}) {
      span = make_span(c, nullptr, start);
      // Blocks over a slice may leave the last one.
      if (class_bytes(c) <= kSliceBytes) {
        ASSERT_EQ(span->dirty_slices_at_start.get(), low_mask(span->slices.get())) << "class " << c;
      }
      std::vector<bool> seen(span->capacity.get());
      u32 left = span->capacity.get();
      u32 rounds = 0;
      for (auto blocks = carved(span, &zero); !blocks.empty(); blocks = carved(span, &zero), ++rounds) {
        for (const uptr block : blocks) {
          const u32 index = static_cast<u32>(stride_of(span).at_or_before(block - span->first_block));
          ASSERT_EQ(reinterpret_cast<uptr>(block_at(span, index)), block);
          ASSERT_FALSE(seen[index]) << "class " << c;
          seen[index] = true;
        }
        const u32 count = static_cast<u32>(blocks.size());
        const u32 of_page = static_cast<u32>(kCarvePage / span->block_bytes.get()) + 1;
        const u32 wanted = rounds == 0 ? 1 : wanted_at_once(span);
        ASSERT_GE(count, wanted < left ? wanted : left) << "class " << c;
        ASSERT_LT(count, wanted + of_page) << "class " << c;
        left -= count;
      }
      EXPECT_EQ(left, 0u) << "class " << c;
      EXPECT_EQ(span->absent.get(), 0u);
      end_span(span);
    }
    purge_free(~usize{0} / 2);  // the next class shall find it fresh
  }
}

// Of a span whose slices were resident in part, a page of the others is touched only when a block of it is wanted.
FRESH_TEST(Carved, DoesNotReachIntoFreshSlices) {
  start_ground();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const u32 slices = 1u << kLayout[c].slices_log2;
    if (slices < 2) continue;
    const SliceRun run = acquire_slices(slices, slices, 0);
    const u64 old = 0b10101011 & low_mask(slices);
    release_slices(run.arena, run.slice, slices, old);
    Span* span = make_span(c, nullptr);
    ASSERT_EQ(span->dirty_slices_at_start.get(), old);
    const auto is_old = [&](uptr address) { return (old >> ((address - span_start(span)) / kSliceBytes) & 1) != 0; };
    u32 left = span->capacity.get();
    bool zero = false;
    for (auto blocks = carved(span, &zero); !blocks.empty(); blocks = carved(span, &zero)) {
      for (const uptr block : blocks) {
        const bool first_page = round_down(block, kCarvePage) == round_down(blocks[0], kCarvePage);
        ASSERT_TRUE(first_page || is_old(block)) << "class " << c;
      }
      left -= static_cast<u32>(blocks.size());
    }
    EXPECT_EQ(left, 0u) << "class " << c;
    end_span(span);
    purge_free(~usize{0} / 2);
  }
}

FRESH_TEST(Carved, TouchesOnlyThePageItCuts) {
  start_ground();
  Span* span = make_span(3, nullptr);
  void* start = reinterpret_cast<void*>(span_start(span));
  EXPECT_EQ(test::resident_pages(start, kSliceBytes), 0u);
  for (usize pages = 1; pages <= kPagesPerSlice; ++pages) {
    bool zero = false;
    carved(span, &zero);
    EXPECT_EQ(test::resident_pages(start, kSliceBytes) * os::page_size(),
              round_up(pages * kCarvePage, os::page_size()));
  }
}

FRESH_TEST(Carved, KnowsZerosOnlyWhenEverySliceIsFresh) {
  start_ground();
  const ClassIndex wide = aligned_class(kSliceBytes, kSliceBytes);  // eight slices
  Span* span = make_span(wide, nullptr);
  ASSERT_EQ(span->slices.get(), 8u);
  bool zero = false;
  cut_page(span, &zero);
  EXPECT_TRUE(zero);
  end_span(span);
  ASSERT_EQ(counters().dirty.load(relaxed), kSliceBytes) << "the first block";
  span = make_span(wide, nullptr);
  EXPECT_EQ(absent_are(span), AbsentPages::unknown);
  zero = true;
  cut_page(span, &zero);
  EXPECT_FALSE(zero) << "some of its slices hold old data";
  end_span(span);
  purge_free(~usize{0} / 2);
  span = make_span(wide, nullptr);
  cut_page(span, &zero);
  EXPECT_TRUE(zero);
}

// --- What is left resident. ---

// Cuts `pages` times and ends the span; returns its slices' dirty bits and, in *least, those its blocks lie in.
u64 dirty_after(ClassIndex c, u32 pages, u64* least) {
  Span* span = make_span(c, nullptr);
  EXPECT_EQ(span, first_arena().spans) << "it starts its chunk";
  *least = 0;
  for (u32 i = 0; i < pages; ++i) {
    bool zero = false;
    for (const uptr block : carved(span, &zero)) {
      const uptr from = (block - span_start(span)) / kSliceBytes;
      const uptr to = (block + span->block_bytes.get() - 1 - span_start(span)) / kSliceBytes;
      for (uptr slice = from; slice <= to; ++slice) *least |= u64{1} << slice;
    }
  }
  end_span(span);
  return first_arena().chunks[0].dirty.load(relaxed);
}

FRESH_TEST(EndSpan, LeavesTheSlicesDirtyThatItsBlocksReachInto) {
  start_ground();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const u32 slices = 1u << kLayout[c].slices_log2;
    for (u32 pages = 0; pages <= slices * kPagesPerSlice; ++pages) {
      u64 least = 0;
      const u64 dirty = dirty_after(c, pages, &least);
      ASSERT_EQ(dirty & least, least) << "class " << c << " after " << pages << " pages";
      ASSERT_EQ(dirty & ~low_mask(slices), 0u);
      // At most one slice more: the last page is counted whole, and the block that could start at its end.
      ASSERT_LE(count_bits(dirty), count_bits(least) + 1) << "class " << c << " after " << pages << " pages";
      ASSERT_EQ(counters().dirty.load(relaxed), count_bits(dirty) * kSliceBytes);
      if (pages == 0) {
        ASSERT_EQ(dirty, 0u) << "nobody touched it";
      }
      purge_free(~usize{0} / 2);
      ASSERT_EQ(counters().dirty.load(relaxed), 0u);
    }
  }
}

FRESH_TEST(EndSpan, KeepsInMindWhatWasDirtyBefore) {
  start_ground();
  const SliceRun run = acquire_slices(8, 8, 0);
  ASSERT_EQ(run.slice, 0u);
  release_slices(run.arena, 0, 8, 0b1010'0000);
  u64 least = 0;
  EXPECT_EQ(dirty_after(aligned_class(kSliceBytes, kSliceBytes), 0, &least), 0b1010'0000u);
  EXPECT_EQ(dirty_after(aligned_class(kSliceBytes, kSliceBytes), 1, &least), 0b1010'0001u);
}

// The point of all this: what is said to be zero is zero, whoever had the slices before.
FRESH_TEST(EndSpan, NoOldDataPassesForZeros) {
  start_ground();
  test::Random random(5);
  u32 fresh = 0;
  for (int round = 0; round < 400; ++round) {
    const ClassIndex c = static_cast<ClassIndex>(random.below(kClasses));
    Span* span = make_span(c, nullptr);
    const u32 bytes = span->block_bytes.get();
    for (u64 pages = random.below(1 + span->slices.get() * kPagesPerSlice); pages > 0; --pages) {
      bool zero = false;
      std::vector<uptr> blocks = carved(span, &zero);
      fresh += zero ? 1 : 0;
      for (const uptr block : blocks) {
        char* memory = reinterpret_cast<char*>(block);
        if (zero) {
          ASSERT_TRUE(test::all_bytes(memory + sizeof(Block), bytes - sizeof(Block), 0)) << "class " << c;
        }
        std::memset(memory, 0xff, bytes);
      }
    }
    end_span(span);
    if (random.below(4) == 0) purge_free(random.below(16) * kSliceBytes);
  }
  EXPECT_GT(fresh, 100u) << "the test has to see both";
}

}  // namespace
}  // namespace coffer
