// The life of a span between its owner, threads that free its blocks, an adopter and a thread that gets its owner's
// heap: every order of their steps with a few switches. Whatever happens, each block can be freed once, and in the end
// nothing is held.
#include <gtest/gtest.h>

#include "heap/heaps.hpp"
#include "interleavings/explorer.hpp"

namespace coffer {
namespace {

using namespace test;

// 2 KiB: 16 blocks in a span, reusable from two free ones on.
constexpr usize kBytes = 2048;
constexpr ClassIndex kTwoKiB = compute_class(kBytes);
constexpr u32 kBlocks = 16;
static_assert(kLayout[kTwoKiB].capacity == kBlocks && reuse_threshold_at(kDefaultReuseShift, kBlocks) == 2);

constexpr u32 kMostOrders = 30'000;

Blocks take_span() { return take_many(kBlocks, kBytes); }

// A chain of blocks in one push, with what it leaves to do: what a thread's frees come down to.
void push(const Blocks& blocks, u32 from, u32 to) {
  const auto block = [&](u32 i) { return static_cast<Block*>(blocks[i]); };
  for (u32 i = from; i + 1 < to; ++i) block(i)->next = block(i + 1);
  Span* span = span_of(blocks[from]);
  do_duty(t_heap, span, push_remote(span, block(from), block(to - 1), to - from));
}
void push_each(const Blocks& blocks, u32 from, u32 to) {
  for (u32 i = from; i < to; ++i) push(blocks, i, i + 1);
}

// The protocol: what a span's record says, the mailboxes, and the partial pool with its locks.
void watch_spans() {
  watch(g_arenas.arenas[0].spans, kSlotsPerChunk * sizeof(Span));
  for (u32 i = 1; i < 6; ++i) watch(&heap_by_index(i)->mailbox, sizeof(Atomic<u64>));
  watch(&g_partial_pool, sizeof(PartialPool));
}

class Life {
 public:
  explicit Life(usize slack = 0) {
    start_heaps(slack);
    take();  // the exploring thread's heap comes first
    release_idle(t_heap);
    baseline_ = held_bytes();
    watch_spans();
  }
  // Explores; after each order frees what `left` says the program still holds, and sees that nothing else is held.
  void explore(std::vector<Actor> actors, const std::function<void()>& free_the_rest, u32 switches = 2) {
    Scenario scenario;
    scenario.actors = std::move(actors);
    scenario.after = [&] {
      ASSERT_EQ(check_everything(), 0u);
      ASSERT_EQ(attached_heaps(), 1u);
      free_the_rest();
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
};

FRESH_TEST(SpanLifeOrders, BothSidesReachTheThreshold) {
  Life life;
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_span();
                   blocks.push_back(take(kBytes));
                   ASSERT_EQ(state_of(span_of(blocks[0])), SpanState::floating);
                 },
                 [&] {
                   give(blocks[0]);
                   give(blocks[1]);
                   give(blocks[2]);
                 }},
                {[] { own_heap(); }, [&] { push_each(blocks, 3, 6); }}},
               [&] { give_many(blocks, 6); });
}

FRESH_TEST(SpanLifeOrders, TheOwnerRunsOutWhileAnotherFrees) {
  Life life;
  Blocks blocks;
  std::vector<void*> more;
  life.explore({{[&] {
                   blocks = take_span();
                   more.clear();
                   ASSERT_EQ(state_of(span_of(blocks[0])), SpanState::hot);
                 },
                 [&] {
                   for (u32 i = 0; i < 3; ++i) more.push_back(take(kBytes));
                 }},
                {[] { own_heap(); }, [&] { push_each(blocks, 0, 3); }}},
               [&] {
                 for (u32 i = 0; i < 3; ++i) ASSERT_NE(more[i], nullptr);
                 give_many(blocks, 3);
                 give_many(more);
               });
}

FRESH_TEST(SpanLifeOrders, TheOwnerEndsWhileAnotherFreesTheRest) {
  Life life;
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_span();
                   blocks.push_back(take(kBytes));
                   give(blocks[0]);  // floats, one short of the threshold
                 },
                 [] {}},
                {[] { own_heap(); },
                 [&] {
                   push_each(blocks, 1, 4);
                   push(blocks, 4, kBlocks);
                 }}},
               [&] { give_many(blocks, kBlocks); });
}

FRESH_TEST(SpanLifeOrders, TheOwnerEndsWhileTwoFree) {
  Life life;
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_span();
                   blocks.push_back(take(kBytes));
                 },
                 [] {}},
                {[] { own_heap(); }, [&] { push(blocks, 0, 2); }},
                {[] { own_heap(); }, [&] { push(blocks, 2, kBlocks); }}},
               [&] { give_many(blocks, kBlocks); });
}

FRESH_TEST(SpanLifeOrders, AnotherThreadGetsTheHeapOfTheOne) {
  Life life;
  Blocks blocks;
  void* more = nullptr;
  life.explore({{[&] {
                   blocks = take_span();
                   blocks.push_back(take(kBytes));
                 },
                 [] {}},
                {[] { own_heap(); }, [&] { push(blocks, 0, 2); }},
                {[] { ASSERT_EQ(t_heap, &g_null_heap); }, [&] { more = take(kBytes); }}},
               [&] {
                 give_many(blocks, 2);
                 give(more);
               });
}

FRESH_TEST(SpanLifeOrders, ASharedSpanIsEmptiedWhileAThreadAdopts) {
  Life life;
  Blocks blocks;
  void* more = nullptr;
  life.explore({{[&] {
                   Worker owner;
                   owner.run([&] { blocks = take_span(); });
                   owner.end();
                   ASSERT_EQ(state_of(span_of(blocks[0])), SpanState::shared);
                   own_heap();
                 },
                 [&] {
                   push(blocks, 0, 1);
                   push(blocks, 1, 8);
                 }},
                {[] { own_heap(); }, [&] { push(blocks, 8, kBlocks); }},
                {[] { own_heap(); }, [&] { more = take(kBytes); }}},
               [&] { give(more); });
}

FRESH_TEST(SpanLifeOrders, TwoAdoptAndTheLastBlocksAreFreed) {
  Life life;
  Blocks blocks;
  void *one = nullptr, *two = nullptr;
  life.explore({{[&] {
                   Worker owner;
                   owner.run([&] { blocks = take_span(); });
                   owner.end();
                   own_heap();
                   give_now(blocks, 0, 14);
                   ASSERT_EQ(state_of(span_of(blocks[15])), SpanState::listed);
                 },
                 [&] { push_each(blocks, 14, kBlocks); }},
                {[] { own_heap(); }, [&] { one = take(kBytes); }},
                {[] { own_heap(); }, [&] { two = take(kBytes); }}},
               [&] {
                 ASSERT_NE(one, two);
                 give(one);
                 give(two);
               });
}

// The owner hands a span on for want of slack, while another frees and a third adopts.
FRESH_TEST(SpanLifeOrders, TheOwnerSharesWhileAnotherFreesAndAThirdAdopts) {
  Life life;
  Blocks blocks;
  void* more = nullptr;
  life.explore({{[&] {
                   blocks = take_span();
                   blocks.push_back(take(kBytes));
                   give_many(blocks, 0, 3);  // reusable within the slack of a sixteenth; the next event shares
                 },
                 [&] { give_many(blocks, 3, 6); }},
                {[] { own_heap(); }, [&] { push(blocks, 6, kBlocks); }},
                {[] { own_heap(); }, [&] { more = take(kBytes); }}},
               [&] {
                 give_many(blocks, kBlocks);
                 give(more);
               });
}

// A span goes through its whole life within the slack: claimed, mailed, reusable, hot again.
FRESH_TEST(SpanLifeOrders, TheOwnerGetsItsMailAndGoesOn) {
  Life life(usize{1} << 20);
  Blocks blocks, more;
  life.explore({{[&] {
                   blocks = take_span();
                   more = take_span();
                 },
                 [&] {
                   more.push_back(take(kBytes));
                   give(blocks[8]);
                   more.push_back(take(kBytes));
                 }},
                {[] { own_heap(); }, [&] { push_each(blocks, 0, 4); }}},
               [&] {
                 give_many(blocks, 4, 8);
                 give_many(blocks, 9);
                 give_many(more);
               });
}

}  // namespace
}  // namespace coffer
