// SPDX-License-Identifier: MIT
#include "span/class_use.hpp"
#include "span/emptiness.hpp"

#include <gtest/gtest.h>

#include "fresh.hpp"
#include "ground.hpp"
#include "span/sharing.hpp"

namespace coffer {
namespace {

using test::start_ground;

constexpr ClassIndex kClass = 3;  // 64 bytes, 512 blocks
constexpr usize kBytes = kSliceBytes;

// A claimed span of which `local` blocks are on its local list, by the count, and the others live.
Span* make_claimed(u32 local) {
  Span* span = make_span(kClass, nullptr);
  span->carved.set(span->capacity.get());
  set_countdown(span, local, kNever);
  EXPECT_TRUE(claim(span));
  return span;
}

void expect_use(u32 spans, usize used, usize high) {
  EXPECT_EQ(class_spans(kClass), spans);
  EXPECT_EQ(class_used(kClass), used);
  EXPECT_EQ(class_high(kClass), high);
}

FRESH_TEST(ClassUse, HighIsTheHighestSinceTheClassHadNoSpan) {
  start_ground();
  expect_use(0, 0, 0);
  Span* first = make_claimed(0);
  Span* second = make_claimed(0);
  expect_use(2, 2 * kBytes, 2 * kBytes);
  end_span(second);
  expect_use(1, kBytes, 2 * kBytes);
  end_span(first);
  expect_use(0, 0, 0);
  end_span(make_claimed(0));
  expect_use(0, 0, 0);
}

FRESH_TEST(ClassUse, ASharedSpanCountsWithoutWhatWasFreeThen) {
  start_ground();
  Span* span = make_claimed(100);
  EXPECT_EQ(shared_base_bytes(span), 100 * 64u);
  EXPECT_TRUE(share_span(span, [&](Span* listed) {
    EXPECT_EQ(listed, span);
    expect_use(1, kBytes, kBytes);  // private until it can be found
    return true;
  }));
  expect_use(1, kBytes - 100 * 64, kBytes);
  ASSERT_TRUE(mark_adopted(span, nullptr));
  expect_use(1, kBytes, kBytes);
}

FRESH_TEST(ClassUse, HighRisesWithWhatIsAdopted) {
  start_ground();
  Span* span = make_claimed(100);
  EXPECT_TRUE(share_span(span, [](Span*) { return true; }));
  make_claimed(0);
  expect_use(2, 2 * kBytes - 100 * 64, 2 * kBytes - 100 * 64);
  ASSERT_TRUE(mark_adopted(span, nullptr));
  expect_use(2, 2 * kBytes, 2 * kBytes);
}

FRESH_TEST(ShareSpan, ListsWhatHasTheThreshold) {
  start_ground();
  const auto never = [](Span*) {
    ADD_FAILURE() << "not listed";
    return true;
  };
  Span* full = make_claimed(reuse_threshold(512) - 1);
  EXPECT_FALSE(share_span(full, never));
  EXPECT_EQ(load_word(full, relaxed).state(), SpanState::shared);
  Span* empty = make_claimed(512);
  EXPECT_FALSE(share_span(empty, never));
  EXPECT_EQ(load_word(empty, relaxed).state(), SpanState::free);
  Span* roomy = make_claimed(reuse_threshold(512));
  EXPECT_TRUE(share_span(roomy, [](Span*) { return true; }));
  EXPECT_EQ(load_word(roomy, relaxed).state(), SpanState::listed);
}

// Its last block is freed before it is put in: whoever puts it in ends it.
FRESH_TEST(ShareSpan, EndsWhatBecameEmptyBeforeItWasPutIn) {
  start_ground();
  Span* span = make_claimed(511);
  EXPECT_TRUE(share_span(span, [](Span* listed) {
    Block* last = block_at(listed, 0);
    EXPECT_EQ(push_remote(listed, last, last, 1), PushDuty::take_off);
    return false;
  }));
  EXPECT_EQ(load_word(span, relaxed).state(), SpanState::free);
  expect_use(0, 0, 0);
}

FRESH_TEST(Makers, TheMostAtATimeOfAClassAreRemembered) {
  {
    const Maker one(kClass), two(kClass), another(kClass + 1);
  }
  const Maker again(kClass);
  EXPECT_EQ(most_makers(kClass), 2u);
  EXPECT_EQ(most_makers(kClass + 1), 1u);
  EXPECT_EQ(most_makers(kClass + 2), 0u);
}

}  // namespace
}  // namespace coffer
