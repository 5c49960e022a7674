// SPDX-License-Identifier: MIT
// After a malloc has failed, each block that is freed makes itself known, so that the next one neither fails nor looks
// at every span again.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "heap/refill.hpp"
#include "heaps.hpp"
#include "os/fake/fake.hpp"
#include "os/os.hpp"
#include "sleeper.hpp"

namespace coffer {
namespace {

using namespace test;

// Full spans of the class, all but the last one floating; no slice is left, and a malloc has failed.
std::vector<Blocks> full_and_failed(usize slack = usize{64} << 10) {
  start_heaps(slack, usize{8} << 20);
  std::vector<Blocks> spans;
  for (u32 i = 0; i < 4; ++i) spans.push_back(take_many(kCapacity));
  exhaust_slices();
  EXPECT_EQ(allocate_any(kSize), nullptr);
  return spans;
}

// The next malloc would look at every span: as long as this heap is settled it does not.
bool is_settled() { return is_short() && t_heap->settled.get() == g_shortage.load(relaxed); }

FRESH_TEST(Shortage, AFreedBlockIsKnownAtOnce) {
  const std::vector<Blocks> spans = full_and_failed();
  ASSERT_TRUE(is_settled());
  for (const Blocks& span : spans) EXPECT_EQ(claim_at_of(span_of(span[0])), 1u);
  give(spans[2][7]);
  EXPECT_EQ(life_of(span_of(spans[2][0])), SpanLife::hot);
  EXPECT_EQ(take(), spans[2][7]);
  EXPECT_EQ(allocate_any(kSize), nullptr);
  // And again, for its span floats with a threshold of one.
  give(spans[1][9]);
  EXPECT_EQ(take(), spans[1][9]);
  EXPECT_TRUE(is_settled()) << "no new span was made";
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Shortage, ABlockThatTheWalkFindsForASmallerClassIsKnown) {
  start_heaps(usize{64} << 10, usize{8} << 20);
  const Blocks small = take_many(kCapacity * 2), large = take_many(4, 2 * kSize);
  exhaust_slices();
  while (allocate_any(2 * kSize) != nullptr) {
  }
  give(small[3]);  // one of four that would make the span reusable, before anybody failed for the class
  EXPECT_EQ(allocate_any(2 * kSize), nullptr);
  ASSERT_TRUE(is_settled());
  EXPECT_EQ(allocate_any(kSize), small[3]);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Shortage, ARemotelyFreedBlockComesByMail) {
  const std::vector<Blocks> spans = full_and_failed();
  Worker other;
  other.run([&] { push_blocks(spans[1], 5, 6); });
  EXPECT_EQ(state_of(span_of(spans[1][0])), SpanState::claimed);
  EXPECT_EQ(allocate_any(kSize), spans[1][5]);
  EXPECT_EQ(allocate_any(kSize), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Shortage, WithoutSlackItIsListed) {
  const std::vector<Blocks> spans = full_and_failed(0);
  give(spans[0][1]);
  give(spans[1][1]);
  const Blocks got = {allocate_any(kSize), allocate_any(kSize)};
  EXPECT_EQ((std::set<void*>(got.begin(), got.end())), (std::set<void*>{spans[0][1], spans[1][1]}));
  EXPECT_EQ(allocate_any(kSize), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Shortage, ABlockOfNobodysSpanListsIt) {
  start_heaps(0, usize{8} << 20);
  const Blocks orphans = take_orphans();
  Span* span = span_of(orphans[0]);
  take_many(kCapacity);
  exhaust_slices();
  EXPECT_EQ(allocate_any(kSize), nullptr);
  ASSERT_EQ(state_of(span), SpanState::shared);
  give_now({orphans[11]});
  ASSERT_EQ(state_of(span), SpanState::listed);
  EXPECT_EQ(allocate_any(kSize), orphans[11]);
  EXPECT_EQ(check_everything(), 0u);
}

// A span that becomes nobody's during a shortage, with fewer free blocks than would list it, after its owner looked at
// the thresholds as they were before.
FRESH_TEST(Shortage, ASpanThatIsSharedMeanwhileIsListed) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity);
  Span* span = span_of(blocks[0]);
  take_many(1);
  give(blocks[4]);
  ASSERT_EQ(life_of(span), SpanLife::floating);
  begin_shortage();
  give_up(t_heap, span);
  EXPECT_EQ(state_of(span), SpanState::listed);
  EXPECT_EQ(listed_spans(), std::vector<Span*>{span});
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Shortage, AFreeWhoseEventSomebodyElseTookIsFound) {
  const std::vector<Blocks> spans = full_and_failed();
  ASSERT_TRUE(is_settled());
  Heap* heap = t_heap;
  Span* span = span_of(spans[1][0]);
  // As at the end of a free during which somebody began to seize the heap.
  Block* block = static_cast<Block*>(spans[1][2]);
  ASSERT_TRUE(test::push_own(span, block));
  heap->self.store(&g_null_heap, relaxed);
  local_event(span);
  heap->self.store(heap, relaxed);
  EXPECT_TRUE(is_settled()) << "it comes by mail";
  EXPECT_EQ(allocate_any(kSize), spans[1][2]);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Shortage, EndsWithANewSpan) {
  const std::vector<Blocks> spans = full_and_failed();
  give_many(spans[1]);
  give_many(spans[2]);
  release_idle(t_heap);
  const u32 number = g_shortage.load(relaxed);
  ASSERT_NE(allocate_any(512), nullptr);
  EXPECT_EQ(g_shortage.load(relaxed), number + 1);
  EXPECT_EQ(reuse_threshold(kCapacity), kThreshold);
  EXPECT_FALSE(is_settled());
}

FRESH_TEST(Shortage, AFailureAsksTheKernelTwice) {
  full_and_failed();
  const u64 before = os::call_count();
  EXPECT_EQ(allocate_any(kSize), nullptr);
  const u64 once = os::call_count() - before;
  EXPECT_LE(once, 12u) << "for each of the larger classes once more";
}

// What each class has is looked at once; the search of all heaps, with its barrier, is made once a call.
FRESH_TEST(Shortage, AnAlignedFailureCostsNoMoreThanAPlainOne) {
  full_and_failed();
  const auto cost_of = [](auto&& call) {
    const u64 calls = os::call_count();
    const u64 barriers = os::fake::calls_of(os::fake::kBarrier);
    const u32 refills = t_heap->chain_turn.get();
    EXPECT_EQ(call(), nullptr);
    return std::array<u64, 3>{os::call_count() - calls, os::fake::calls_of(os::fake::kBarrier) - barriers,
                              u64{t_heap->chain_turn.get() - refills}};
  };
  Sleeper sleeper;  // whose heap is stolen from, by a barrier
  const std::array<u64, 3> plain = cost_of([] { return allocate_any(kSize); });
  EXPECT_EQ(plain[1], 1u);
  for (const usize alignment : {usize{32}, usize{64}, usize{256}, usize{4096}}) {
    const std::array<u64, 3> aligned = cost_of([=] { return Allocator::allocate_aligned(kSize, alignment); });
    EXPECT_LE(aligned[0], plain[0]) << alignment;
    EXPECT_LE(aligned[1], plain[1]) << alignment;
    EXPECT_LE(aligned[2], kClasses) << alignment;
  }
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Shortage, AnAlignedBlockIsFoundInALargerClass) {
  start_heaps(usize{64} << 10, usize{8} << 20);
  // Twins: all blocks of the class are aligned to their size.
  Blocks wide;
  for (u32 i = 0; i < 8; ++i) wide.push_back(Allocator::allocate_aligned(4096, 4096));
  const Blocks plain = take_many(kCapacity, 4096);
  exhaust_slices();
  while (Allocator::allocate_aligned(1024, 1024) != nullptr) {
  }
  give(plain[0]);  // not aligned, or by chance
  EXPECT_EQ(Allocator::allocate_aligned(1024, 1024), nullptr);
  give(wide[3]);
  EXPECT_EQ(Allocator::allocate_aligned(1024, 1024), wide[3]);
  EXPECT_EQ(Allocator::allocate_aligned(1024, 1024), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
