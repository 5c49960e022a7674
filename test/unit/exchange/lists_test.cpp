// SPDX-License-Identifier: MIT
// The lists that malloc pops from: taken whole from a hot span, and put back whole.
#include "exchange/lists.hpp"

#include <gtest/gtest.h>

#include "heaps.hpp"
#include "mixed/mixed.hpp"
#include "support/random.hpp"

namespace coffer {
namespace {

using namespace test;

FRESH_TEST(Lists, AreMeasuredUpToALimit) {
  start_heaps();
  const Blocks blocks = take_many(3);
  for (u32 i = 0; i < 3; ++i)
    set_next(static_cast<Block*>(blocks[i]), i == 2 ? nullptr : static_cast<Block*>(blocks[i + 1]));
  const auto measured = [&](Block* list, u32 most) { return measure_list(list, most); };
  EXPECT_EQ(measured(nullptr, 5).count, 0u);
  EXPECT_EQ(measured(nullptr, 5).last, nullptr);
  EXPECT_EQ(measured(static_cast<Block*>(blocks[0]), 5).count, 3u);
  EXPECT_EQ(measured(static_cast<Block*>(blocks[0]), 5).last, blocks[2]);
  EXPECT_EQ(measured(static_cast<Block*>(blocks[0]), 2).count, 2u);
  EXPECT_EQ(measured(static_cast<Block*>(blocks[0]), 2).last, blocks[1]);
}

// What was freed in a span becomes malloc's list, as it is, when the span becomes hot.
FRESH_TEST(Lists, AreTakenWhole) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity);
  take_many(kCapacity);
  Span* span = span_of(blocks[0]);
  give_many(blocks, 0, 20);
  EXPECT_EQ(local_count(span), 20u);
  EXPECT_EQ(take(), blocks[19]);
  EXPECT_EQ(t_heap->blocks[kClass].get(), blocks[18]);
  EXPECT_EQ(measure_list(t_heap->blocks[kClass].get(), 100).count, 19u);
  EXPECT_EQ(span->local_free.get(), nullptr);
  EXPECT_EQ(local_count(span), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Lists, GoBackBeforeTheLocalList) {
  start_heaps();
  const Blocks blocks = take_many(kBlocksPerPage + 1);
  give(blocks[0]);
  give(blocks[1]);
  Span* span = span_of(blocks[0]);
  Block* list = t_heap->blocks[kClass].get();
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list, blocks[1]) << "what was freed last comes first";
  put_back_list(t_heap, kClass, span);
  EXPECT_EQ(t_heap->blocks[kClass].get(), nullptr);
  EXPECT_EQ(span->local_free.get(), list);
  EXPECT_EQ(local_count(span), kBlocksPerPage - 1 + 2u);
  EXPECT_EQ(check_everything(), 0u);
  put_back_list(t_heap, kClass, span);
  EXPECT_EQ(local_count(span), kBlocksPerPage - 1 + 2u) << "there is none";
}

FRESH_TEST(Lists, ThatAreInBothPlacesGoBackOnce) {
  start_heaps();
  const Blocks blocks = take_many(kBlocksPerPage);
  give(blocks[0]);
  give(blocks[1]);
  Span* span = span_of(blocks[0]);
  put_back_list(t_heap, kClass, span);
  t_heap->blocks[kClass].set(span->local_free.get());  // as a fork child may find it
  put_back_list(t_heap, kClass, span);
  EXPECT_EQ(t_heap->blocks[kClass].get(), nullptr);
  EXPECT_EQ(local_count(span), 2u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Lists, OfBlocksFromHolesAreFreed) {
  start_heaps();
  changeable_options().mixed = config::MixedPolicy::automatic;
  void* first = take(48);
  const ClassIndex size_class = compute_class(48);
  ASSERT_TRUE(is_mixed(span_of(first)));
  ASSERT_EQ(t_heap->hot[size_class].get(), nullptr);
  void* second = take(48);
  free_list(t_heap, size_class);
  EXPECT_EQ(t_heap->blocks[size_class].get(), nullptr);
  EXPECT_EQ(check_everything(), 0u);
  free_list(t_heap, size_class);  // nothing
  give(first);
  give(second);
  EXPECT_EQ(g_mixed_pool.counted_live(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// Whatever the order of malloc and free, and wherever lists are put back: no block is lost, and none comes twice.
FRESH_TEST(Lists, RandomOrdersLoseNothing) {
  start_heaps();
  test::Random random(11);
  Blocks live;
  for (u32 step = 0; step < 60'000; ++step) {
    const bool grow = (step / 300) % 2 == 0;
    if (live.empty() || random.below(100) < (grow ? 75 : 25)) {
      void* block = take();
      *static_cast<u64*>(block) = reinterpret_cast<uptr>(block);
      live.push_back(block);
    } else {
      const usize i = random.below(live.size());
      void* block = live[i];
      ASSERT_EQ(*static_cast<u64*>(block), reinterpret_cast<uptr>(block));
      live[i] = live.back();
      live.pop_back();
      give(block);
    }
    if (step % 128 == 0) {
      ASSERT_EQ(check_everything(), 0u);
    }
    if (step % 1024 == 0) empty_own_heap();
  }
  give_many(live);
  empty_own_heap();
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_EQ(held_bytes(), 0u);
}

}  // namespace
}  // namespace coffer
