// SPDX-License-Identifier: MIT
// Which empty spans are carved again, and what is known of their memory then.
#include "span/order.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "fresh.hpp"
#include "ground.hpp"
#include "support/random.hpp"

namespace coffer {
namespace {

using test::cut_page;
using test::start_ground;

using Order = std::vector<u32>;  // of blocks by their numbers

// A span of which all blocks were carved, and those of `order` lie on the local list.
Span* make_freed(ClassIndex size_class, const Order& order) {
  Span* span = make_span(size_class, nullptr);
  bool zero = false;
  while (cut_page(span, &zero) != nullptr) {
  }
  Block* next = nullptr;
  for (usize i = order.size(); i-- > 0;) {
    set_next(block_at(span, order[i]), next);
    next = block_at(span, order[i]);
  }
  span->local_free.set(next);
  set_countdown(span, static_cast<u32>(order.size()), kNever);
  return span;
}

Order ascending(ClassIndex size_class) {
  Order order(kLayout[size_class].capacity);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

// No two neighbours follow each other.
Order back_and_forth(ClassIndex size_class) {
  Order order;
  const u32 count = kLayout[size_class].capacity, half = count / 2;
  for (u32 i = 0; i < half; ++i) {
    order.push_back(i);
    order.push_back(i + half);
  }
  if (order.size() < count) order.push_back(count - 1);
  return order;
}

Order shuffled(ClassIndex size_class) {
  Order order = ascending(size_class);
  test::Random random(size_class);
  for (usize i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  return order;
}

void expect_kept(ClassIndex size_class, const Order& order) {
  Span* span = make_freed(size_class, order);
  const Block* first = span->local_free.get();
  restore_order(span);
  EXPECT_EQ(span->local_free.get(), first) << "class " << size_class;
  EXPECT_EQ(local_count(span), order.size());
  EXPECT_EQ(span->carved.get(), span->capacity.get());
  EXPECT_EQ(span->absent.get(), 0u);
  end_span(span);
}

void expect_cut_again(ClassIndex size_class, const Order& order) {
  Span* span = make_freed(size_class, order);
  const u64 untouched = untouched_pages(span);
  restore_order(span);
  ASSERT_EQ(span->local_free.get(), nullptr) << "class " << size_class;
  EXPECT_EQ(local_count(span), 0u);
  EXPECT_EQ(absent_count(span), span->capacity.get());
  EXPECT_EQ(untouched_pages(span) & ~untouched, 0u) << "memory that holds data counts as fresh";
  u32 seen = 0;
  for (;;) {
    bool zero = false;
    const Block* block = cut_page(span, &zero);
    if (block == nullptr) break;
    EXPECT_FALSE(zero);
    for (; block != nullptr; block = next_of(block)) ASSERT_EQ(block, block_at(span, seen++)) << "class " << size_class;
  }
  EXPECT_EQ(seen, span->capacity.get());
  end_span(span);
}

constexpr u32 kManyBlocks = 16;

FRESH_TEST(Order, AListThatLeadsBackAndForthIsCutAgain) {
  start_ground();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (kLayout[c].capacity < kManyBlocks) continue;
    expect_cut_again(c, back_and_forth(c));
    if (kLayout[c].capacity >= 4 * kManyBlocks) expect_cut_again(c, shuffled(c));
  }
}

FRESH_TEST(Order, AListInOrderIsKept) {
  start_ground();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const Order forwards = ascending(c);
    expect_kept(c, forwards);
    expect_kept(c, Order(forwards.rbegin(), forwards.rend()));
  }
}

FRESH_TEST(Order, ASpanWithALiveBlockIsLeftAlone) {
  start_ground();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    Order order = back_and_forth(c);
    order.pop_back();
    expect_kept(c, order);
    expect_kept(c, {});
  }
}

FRESH_TEST(Order, FewBlocksAreLeftAlone) {
  start_ground();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (kLayout[c].capacity < 5) expect_kept(c, back_and_forth(c));
  }
}

}  // namespace
}  // namespace coffer
