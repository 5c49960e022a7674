// SPDX-License-Identifier: MIT
#include "papers/scalloc/span.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>

namespace coffer::scalloc {
namespace {

struct Memory {
  Memory() : span(static_cast<Span*>(std::aligned_alloc(kLeastVirtualSpan, kLeastVirtualSpan))) { new (span) Span(); }
  ~Memory() { std::free(span); }
  Span* span;
};

TEST(ScallocSpan, EpochCountsEveryTransition) {
  Memory memory;
  Span* span = memory.span;
  const Epoch fresh = load_epoch(span);
  EXPECT_EQ(fresh.state(), State::expected);
  EXPECT_TRUE(try_mark_hot(span, fresh));
  const Epoch hot = load_epoch(span);
  EXPECT_EQ(hot.state(), State::hot);
  EXPECT_TRUE(try_mark_floating(span, hot));
  const Epoch floating = load_epoch(span);
  EXPECT_TRUE(try_mark_reusable(span, floating));
  EXPECT_TRUE(try_mark_hot(span, load_epoch(span)));
  EXPECT_TRUE(try_mark_floating(span, load_epoch(span)));
  EXPECT_EQ(load_epoch(span).counter(), 5u);
  // The state is the same as then, the stay is another: whoever was delayed since loses.
  EXPECT_EQ(load_epoch(span).state(), floating.state());
  EXPECT_FALSE(try_mark_free(span, floating));
  EXPECT_TRUE(try_mark_free(span, load_epoch(span)));
}

TEST(ScallocSpan, EpochCounterStaysBelowTheState) {
  Epoch epoch(~u64{0} >> 4);
  epoch = epoch.next(State::floating);
  EXPECT_EQ(epoch.counter(), 0u);
  EXPECT_EQ(epoch.state(), State::floating);
}

TEST(ScallocSpan, CarvesInTheOrderOfAddressesAPageAtATime) {
  Memory memory;
  Span* span = memory.span;
  begin_life(span, class_of(64), 400, 1);
  EXPECT_EQ(free_blocks(span), 508u);
  uptr last = 0;
  u32 count = 0;
  while (span->local_first.get() != nullptr || carve(span)) {
    const uptr block = reinterpret_cast<uptr>(pop_local(span));
    EXPECT_GT(block, last);
    EXPECT_EQ((block - span->base() - kHeaderBytes) % 64, 0u);
    last = block;
    ++count;
    EXPECT_LE(span->carved.get(), count / 64 * 64 + 64);
  }
  EXPECT_EQ(count, 508u);
  EXPECT_EQ(free_blocks(span), 0u);
  EXPECT_EQ(pop_local(span), nullptr);
}

TEST(ScallocSpan, RemoteBlocksComeByOneExchange) {
  Memory memory;
  Span* span = memory.span;
  begin_life(span, class_of(256), 101, 1);
  std::set<Block*> blocks;
  while (span->local_first.get() != nullptr || carve(span)) blocks.insert(pop_local(span));
  ASSERT_EQ(blocks.size(), 127u);
  u32 pushed = 0;
  for (Block* block : blocks) {
    // Strictly more than the threshold.
    EXPECT_EQ(try_refill_from_remotes(span), false);
    push_remote(span, block);
    EXPECT_EQ(free_blocks(span), ++pushed);
    if (pushed == 102) break;
  }
  EXPECT_TRUE(try_refill_from_remotes(span));
  EXPECT_EQ(span->remote.load(relaxed), 0u);
  EXPECT_EQ(free_blocks(span), 102u);
  for (u32 i = 0; i < 102; ++i) EXPECT_EQ(blocks.count(pop_local(span)), 1u);
  EXPECT_EQ(pop_local(span), nullptr);
}

TEST(ScallocSpan, FindsTheBlockAroundAnAddress) {
  Memory memory;
  Span* span = memory.span;
  for (u32 c = 1; c < kClasses; ++c) {
    begin_life(span, c, 0, 1);
    for (const u32 index : {0u, blocks_of(c) / 2, blocks_of(c) - 1}) {
      const uptr start = reinterpret_cast<uptr>(span->block(index));
      EXPECT_EQ(span->block_around(start), span->block(index));
      EXPECT_EQ(span->block_around(start + block_bytes(c) - 1), span->block(index));
    }
  }
}

}  // namespace
}  // namespace coffer::scalloc
