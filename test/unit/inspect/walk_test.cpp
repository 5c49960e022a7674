// SPDX-License-Identifier: MIT
// What statistics say, and the counts they are made of.
#include "inspect/walk.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "heap/refill.hpp"
#include "heaps.hpp"
#include "mixed/mixed.hpp"
#include "pool/reclaimer.hpp"

namespace coffer {
namespace {

using namespace test;

Statistics statistics() {
  Statistics now;
  Allocator::statistics(now);
  return now;
}

FRESH_TEST(Statistics, AreZeroBeforeTheFirstAllocation) {
  changeable_options().arena = 64 << 20;
  const Statistics now = statistics();
  EXPECT_EQ(now.live, 0u);
  EXPECT_EQ(now.held, 0u);
  EXPECT_EQ(now.spans, 0u);
  EXPECT_EQ(now.heaps, 0u);
  EXPECT_EQ(now.chunks, 0u);
  EXPECT_EQ(now.classes, kClasses);
  EXPECT_GT(now.reserved, 64u << 20);
}

FRESH_TEST(Statistics, CountEveryLiveBlockOfTheCaller) {
  start_heaps();
  const Blocks blocks = take_many(2 * kCapacity + 3);
  Statistics now = statistics();
  EXPECT_EQ(now.live, (2 * kCapacity + 3) * kSize) << "blocks on the heap's own list are free";
  EXPECT_EQ(now.spans, 3u);
  EXPECT_EQ(now.held, 3 * kSliceBytes);
  EXPECT_EQ(now.by_class[kClass].block_bytes, kSize);
  EXPECT_EQ(now.by_class[kClass].spans, 3u);
  EXPECT_EQ(now.by_class[kClass].held, 3 * kSliceBytes);
  EXPECT_EQ(now.by_class[kClass].live, now.live);
  EXPECT_EQ(now.by_class[kClass + 1].spans, 0u);
  EXPECT_EQ(now.heaps, 1u);
  EXPECT_EQ(now.chunks, 1u);
  EXPECT_EQ(now.resident, 2 * kSliceBytes + kCarvePage + now.free_resident) << "of the third span one page is carved";
  // One free of each kind: hot, floating, reusable.
  give(blocks[2 * kCapacity]);
  give(blocks[0]);
  give_many(blocks, kCapacity, kCapacity + kThreshold);
  now = statistics();
  EXPECT_EQ(now.live, (2 * kCapacity + 3 - 2 - kThreshold) * kSize);
}

// Who keeps the reclaimer from its chores may ask for statistics, which do so, too.
FRESH_TEST(Statistics, CanBeHadWhileTheReclaimerRests) {
  start_heaps();
  const Blocks blocks = take_many(3);
  alarm(10);
  {
    const ReclaimerRests rests;
    EXPECT_EQ(statistics().live, 3 * kSize);
    EXPECT_EQ(check_everything(), 0u);
  }
  EXPECT_EQ(statistics().live, 3 * kSize) << "and the inner ones left it to the outer one";
}

FRESH_TEST(Statistics, CountWhatOthersFreedAndTheOpenChain) {
  start_heaps();
  Blocks blocks;
  Worker other;
  other.run([&] { blocks = take_many(kCapacity + 1); });
  EXPECT_EQ(statistics().live, (kCapacity + 4) * kSize) << "the list of another's hot span may not be read";
  give(blocks[0]);
  give(blocks[1]);
  EXPECT_EQ(statistics().live, (kCapacity + 4 - 2) * kSize) << "they wait in the chain";
  close_chains(t_heap);
  EXPECT_EQ(statistics().live, (kCapacity + 4 - 2) * kSize);
  EXPECT_EQ(statistics().heaps, 2u);
  other.run([] { empty_own_heap(); });
  other.end();
  EXPECT_EQ(statistics().live, (kCapacity + 1 - 2) * kSize) << "shared spans are counted exactly";
  EXPECT_EQ(statistics().heaps, 1u);
  EXPECT_EQ(statistics().heaps_ever, 3u);
}

// The owner, or who adopted the span, made it mixed while the chain was open.
FRESH_TEST(Statistics, CountTheOpenChainOnASpanThatBecameMixed) {
  start_heaps();
  Blocks blocks;
  Worker other;
  other.run([&] { blocks = take_many(kCapacity + 1); });
  Span* span = span_of(blocks[0]);
  give(blocks[0]);
  give(blocks[1]);
  ASSERT_EQ(held_back(t_heap), 2u);
  const usize live = statistics().live;
  other.run([&] {
    const Inside inside;
    ASSERT_TRUE(claim(span));
    ASSERT_TRUE(g_mixed_pool.convert(span));
    t_heap->held.fetch_sub(span_bytes(span), relaxed);
  });
  ASSERT_EQ(held_back(t_heap), 2u);
  EXPECT_EQ(statistics().live, live);
  EXPECT_EQ(statistics().mixed_live, (kCapacity - 2) * kSize);
  close_chains(t_heap);
  EXPECT_EQ(statistics().live, live);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Statistics, CountTheFallbackHeap) {
  start_heaps();
  bool zero = false;
  {
    const FallbackHeap fallback;
    allocate_block(fallback.get(), kClass, true, &zero);
  }
  EXPECT_EQ(statistics().live, kSize);
  EXPECT_EQ(statistics().spans, 1u);
}

FRESH_TEST(Statistics, CountLargeBlocks) {
  start_heaps();
  void* slices = take(100'000);
  void* chunks = take(3'000'000);
  const usize bytes = 4 * kSliceBytes + round_up(3'000'000, kCarvePage);
  Statistics now = statistics();
  EXPECT_EQ(now.large, bytes);
  EXPECT_EQ(now.large_blocks, 2u);
  EXPECT_EQ(now.live, bytes);
  EXPECT_EQ(now.held, bytes);
  EXPECT_EQ(now.spans, 0u);
  EXPECT_EQ(now.chunks, 3u);
  give(slices);
  give(chunks);
  now = statistics();
  EXPECT_EQ(now.live, 0u);
  EXPECT_EQ(now.held, 0u);
  EXPECT_EQ(now.large_blocks, 0u);
  EXPECT_EQ(now.free_resident, 4 * kSliceBytes + round_up(3'000'000, kSliceBytes)) << "chunks count by slices";
  EXPECT_GE(now.peak_held, bytes);
}

FRESH_TEST(Walks, SeeEveryChunkAndRecordOnce) {
  start_heaps(0, usize{8} << 20);
  take(32 * 1024);
  take(100'000);
  take(5'000'000);
  take(3'000'000);
  take_many(3);
  u32 spans = 0, chunks = 0, large = 0;
  std::vector<std::pair<Span*, SliceUse>> records;
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    spans += use == ChunkUse::spans ? 1 : 0;
    large += use == ChunkUse::large ? 1 : 0;
    ++chunks;
    if (use == ChunkUse::spans) {
      for_each_record(arena, index, [&](Span* span, SliceUse slice_use) { records.emplace_back(span, slice_use); });
    }
  });
  EXPECT_EQ(spans, 1u);
  EXPECT_EQ(large, 2u) << "the first chunk of each stands for all";
  EXPECT_EQ(chunks, 3u);
  ASSERT_EQ(records.size(), 3u);
  u32 uses[5] = {};
  for (const auto& [span, use] : records) ++uses[static_cast<u32>(use)];
  EXPECT_EQ(uses[static_cast<u32>(SliceUse::span)], 2u);
  EXPECT_EQ(uses[static_cast<u32>(SliceUse::large)], 1u);
  EXPECT_GT(g_arenas.count.load(relaxed), 1u);
}

}  // namespace
}  // namespace coffer
