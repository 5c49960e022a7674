// SPDX-License-Identifier: MIT
// What the scenarios of spans' lives share: blocks of one class, pushes, and what has to be true after each order.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "heap/heaps.hpp"
#include "interleavings/explorer.hpp"

namespace coffer::test {

// 2 KiB: 16 blocks in a span, reusable from two free ones on.
inline constexpr usize kBytes = 2048;
inline constexpr ClassIndex kTwoKiB = compute_class(kBytes);
inline constexpr u32 kBlocks = 16;
static_assert(kFlatLayout[kTwoKiB].capacity == kBlocks && reuse_threshold_at(kDefaultReuseShift, kBlocks, false) == 2);

inline constexpr u32 kMostOrders = 60'000;

inline Blocks take_span() { return take_many(kBlocks, kBytes); }
// And one block of the next span: the first one floats.
inline Blocks take_floating_span() {
  Blocks blocks = take_span();
  blocks.push_back(take(kBytes));
  EXPECT_EQ(state_of(span_of(blocks[0])), SpanState::floating);
  return blocks;
}
// Of a thread that has ended.
inline Blocks take_shared_span() {
  Blocks blocks;
  Worker owner;
  owner.run([&] { blocks = take_span(); });
  owner.end();
  EXPECT_EQ(state_of(span_of(blocks[0])), SpanState::shared);
  return blocks;
}

// A chain of blocks in one push, with what it leaves to do: what a thread's frees come down to.
inline void push(const Blocks& blocks, u32 from, u32 to) {
  const auto block = [&](u32 i) { return static_cast<Block*>(blocks[i]); };
  for (u32 i = from; i + 1 < to; ++i) block(i)->next = block(i + 1);
  Span* span = span_of(blocks[from]);
  do_duty(t_heap, span, push_remote(span, block(from), block(to - 1), to - from));
}
inline void push_each(const Blocks& blocks, u32 from, u32 to) {
  for (u32 i = from; i < to; ++i) push(blocks, i, i + 1);
}

// Another thread, which has a heap and nothing in it.
inline Actor other(std::function<void()> run) {
  return {[] { own_heap(); }, std::move(run)};
}
inline Actor robber() {
  return other([] {
    rob_heaps();
    settle_unsettled();
  });
}

// Blocks that were handed out, and are not freed: no two are the same. They are freed.
inline void give_different(std::initializer_list<Blocks> parts) {
  Blocks all;
  for (const Blocks& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  ASSERT_TRUE(std::adjacent_find(all.begin(), all.end()) == all.end()) << "a block was handed out twice";
  give_many(all);
}
inline Blocks from(const Blocks& blocks, u32 first) { return {blocks.begin() + first, blocks.end()}; }

// The protocol: what a span's record says, the mailboxes, and the partial pool with its locks.
inline void watch_spans() {
  watch(g_arenas.arenas[0].spans, kSlotsPerChunk * sizeof(Span));
  for (u32 i = 1; i < 6; ++i) watch(&heap_by_index(i)->mailbox, sizeof(Atomic<u64>));
  watch(&g_partial_pool, sizeof(PartialPool));
}

// A process, and what every order of its threads' steps has to leave behind.
class Life {
 public:
  explicit Life(usize slack = 0) {
    start_heaps(slack);
    own_heap();  // the exploring thread's heap comes first, and has nothing that could be taken from it
    baseline_ = held_bytes();
    watch_spans();
  }
  // For the preparation of an actor: what is claimed from it is taken, and not mailed, until it takes its mail. A full
  // span of another class lies in its box, as if it were very large.
  void fill_mailbox() {
    const Blocks blocks = take_many(9, 4096);
    give(blocks[8]);
    decoy_.assign(blocks.begin(), blocks.begin() + 8);
    Span* span = span_of(decoy_[0]);
    ASSERT_TRUE(claim(span, SpanState::floating));
    span->mail_next.store(0, relaxed);
    t_heap->mailbox.store((u64{1} << 52) | span_number(span), relaxed);
  }
  // Explores; after each order frees what `left` says the program still holds, and sees that nothing else is held.
  void explore(std::vector<Actor> actors, const std::function<void()>& free_the_rest, u32 switches = 2) {
    Scenario scenario;
    scenario.actors = std::move(actors);
    scenario.after = [&] {
      ASSERT_EQ(check_everything(), 0u);
      ASSERT_EQ(attached_heaps(), 1u);
      free_the_rest();
      give_many(decoy_);
      decoy_.clear();
      close_chain(t_heap);
      release_idle(t_heap);
      settle_unsettled();
      ASSERT_EQ(check_everything(), 0u);
      ASSERT_EQ(unsettled_bytes(), 0u);
      ASSERT_TRUE(listed_spans().empty());
      ASSERT_EQ(held_bytes(), baseline_);
    };
    EXPECT_GT(test::explore(scenario, switches, kMostOrders), 20u);
  }

 private:
  usize baseline_ = 0;
  Blocks decoy_;
};

// One in which the names in brackets count, too: for what is settled meanwhile.
class LifeWithBrackets : public Life {
 public:
  explicit LifeWithBrackets(usize slack = 0) : Life(slack) {
    for (u32 i = 1; i < 6; ++i) watch(&heap_by_index(i)->bracket, sizeof(Atomic<Span*>));
  }
};

}  // namespace coffer::test
