// SPDX-License-Identifier: MIT
// Remote frees: what a push leaves to do at each threshold, and what the owner gets.
#include <gtest/gtest.h>

#include <vector>

#include "fresh.hpp"
#include "ground.hpp"
#include "heap/heap.hpp"
#include "span/emptiness.hpp"
#include "span/span.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

using test::start_ground;

Block* block(const Span* span, u32 index) {
  return reinterpret_cast<Block*>(span->first_block + uptr{index} * span->block_bytes.get());
}

u32 unit_of(const Span* span, const Block* block) {
  return static_cast<u32>((reinterpret_cast<uptr>(block) - span_start(span)) / kQuantum) + 1;
}

void set_word(Span* span, SpanState state, u32 count, u32 first) {
  span->remote.store(load_word(span, relaxed).with(state, count, first).bits(), relaxed);
}

struct Expected {
  SpanState state;
  PushDuty duty;
};

// The table of span.hpp, row by row.
Expected expect_push(SpanState state, u32 total, u32 capacity, u32 claim_at) {
  if (state == SpanState::mixed) return {state, PushDuty::mixed};
  if (total > capacity) return {state, PushDuty::double_free};
  switch (state) {
    case SpanState::free:
      return {state, PushDuty::double_free};
    case SpanState::owned:
      return total < claim_at ? Expected{state, PushDuty::none} : Expected{SpanState::claimed, PushDuty::claimed};
    case SpanState::shared:
      if (total == capacity) return {state, PushDuty::give_back};
      return total < claim_at ? Expected{state, PushDuty::none} : Expected{SpanState::listed, PushDuty::list};
    case SpanState::listed:
      return {state, total == capacity ? PushDuty::take_off : PushDuty::none};
    default:
      return {state, PushDuty::none};
  }
}

FRESH_TEST(Push, LeavesTheDutyOfEachThreshold) {
  start_ground();
  for (const ClassIndex c : {ClassIndex{0}, ClassIndex{3}, ClassIndex{13}, ClassIndex{40}, kClasses - 1}) {
    Span* span = make_span(c, nullptr);
    const u32 capacity = span->capacity.get();
    const u32 threshold = reuse_threshold(capacity);
    std::vector<Block*> chain = {block(span, 1)};
    for (u32 length = 1; length <= 16 && length < capacity - 1; ++length) {
      Block* const last = block(span, length);
      for (u32 i = 1; i < length; ++i) set_next(block(span, i), block(span, i + 1));
      for (u32 number = 0; number < kSpanStates * 3; ++number) {
        const u32 state = number / 3;
        const u32 claim_at = number % 3 == 0 ? threshold : number % 3 == 1 ? capacity / 2 : kNever;
        span->claim_at.store(claim_at, relaxed);
        for (u32 before = 0; before <= capacity; ++before) {
          const u32 total = before + length;
          const bool near = total <= length + 1 || (total + 2 >= threshold && total <= threshold + 2) ||
                            (total + 2 >= capacity / 2 && total <= capacity / 2 + 2) ||
                            (total + 2 >= capacity && total <= capacity + 2);
          if (!near) continue;
          const u32 first = before == 0 ? 0 : unit_of(span, block(span, 0));
          set_word(span, static_cast<SpanState>(state), before, first);
          const u32 tag = load_word(span, relaxed).tag();
          const Expected expected = expect_push(static_cast<SpanState>(state), total, capacity, claim_at);
          set_next(last, block(span, 0));
          ASSERT_EQ(push_remote(span, block(span, 1), last, length), expected.duty)
              << "class " << c << " state " << state << " from " << before << " by " << length;
          const RemoteWord word = load_word(span, relaxed);
          ASSERT_EQ(word.state(), expected.state);
          ASSERT_EQ(word.tag(), tag);
          if (expected.duty == PushDuty::double_free || expected.duty == PushDuty::mixed) {
            ASSERT_EQ(word.count(), before) << "nothing was pushed";
            ASSERT_EQ(word.first(), first);
          } else {
            ASSERT_EQ(word.count(), total);
            ASSERT_EQ(word.first(), unit_of(span, block(span, 1)));
            ASSERT_EQ(next_of(last), before == 0 ? nullptr : block(span, 0));
          }
        }
      }
    }
    end_span(span);
  }
}

FRESH_TEST(Push, RefusesTheBlockThatIsFirst) {
  start_ground();
  Span* span = make_span(2, nullptr);
  for (const SpanState state : {SpanState::owned, SpanState::claimed, SpanState::shared, SpanState::listed}) {
    set_word(span, state, 0, 0);
    ASSERT_EQ(push_remote(span, block(span, 4), block(span, 4), 1), PushDuty::none);
    const u64 before = span->remote.load(relaxed);
    EXPECT_EQ(push_remote(span, block(span, 4), block(span, 4), 1), PushDuty::double_free);
    EXPECT_EQ(span->remote.load(relaxed), before);
  }
}

FRESH_TEST(Push, TheOwnerTakesTheLastFirst) {
  start_ground();
  Span* span = make_span(3, nullptr);
  u32 count = 99;
  EXPECT_EQ(take_remote(span, &count), nullptr);
  EXPECT_EQ(count, 0u);
  push_remote(span, block(span, 5), block(span, 5), 1);
  set_next(block(span, 7), block(span, 6));
  push_remote(span, block(span, 7), block(span, 6), 2);
  push_remote(span, block(span, 0), block(span, 0), 1);
  const RemoteWord before = load_word(span, relaxed);
  const Block* list = take_remote(span, &count);
  EXPECT_EQ(count, 4u);
  for (const u32 expected : {0u, 7u, 6u, 5u}) {
    ASSERT_EQ(list, block(span, expected));
    list = next_of(list);
  }
  EXPECT_EQ(list, nullptr);
  EXPECT_EQ(load_word(span, relaxed).bits(), before.taken().bits());
}

FRESH_TEST(Push, BothEndsOfTheSpanHaveNames) {
  start_ground();
  for (ClassIndex c = 0; c < kClasses; ++c) {
    Span* span = make_span(c, nullptr);
    const u32 last = span->capacity.get() - 1;
    push_remote(span, block(span, 0), block(span, 0), 1);
    push_remote(span, block(span, last), block(span, last), 1);
    u32 count = 0;
    const Block* list = take_remote(span, &count);
    EXPECT_EQ(list, block(span, last));
    EXPECT_EQ(next_of(list), block(span, 0));
    EXPECT_EQ(next_of(next_of(list)), nullptr);
    end_span(span);
  }
}

// Threads push all blocks of a span in every state that pushes move on: each duty falls to exactly one.
FRESH_TEST(Push, EachDutyFallsToOneThread) {
  constexpr ClassIndex kClass = 6;
  constexpr u32 kThreads = 4, kRounds = 200;
  start_ground();
  Span* span = make_span(kClass, nullptr);
  const u32 capacity = span->capacity.get();
  for (u32 round = 0; round < kRounds; ++round) {
    constexpr SpanState kStarts[] = {SpanState::owned, SpanState::claimed, SpanState::shared, SpanState::listed};
    const SpanState start = kStarts[round % 4];
    set_word(span, start, 0, 0);
    span->claim_at.store(1 + round % capacity, relaxed);
    Atomic<u32> duties[static_cast<u32>(PushDuty::double_free) + 1];
    test::run_together(kThreads, [&](u32 self) {
      for (u32 i = self - 1; i < capacity; i += kThreads) {
        duties[static_cast<u32>(push_remote(span, block(span, i), block(span, i), 1))].fetch_add(1, relaxed);
      }
    });
    const auto times = [&](PushDuty duty) { return duties[static_cast<u32>(duty)].load(relaxed); };
    ASSERT_EQ(times(PushDuty::claimed), start == SpanState::owned ? 1u : 0u);
    ASSERT_EQ(times(PushDuty::list), start == SpanState::shared ? 1u : 0u);
    ASSERT_EQ(times(PushDuty::take_off), is_private(start) ? 0u : 1u);
    ASSERT_EQ(times(PushDuty::give_back), 0u) << "what was shared is listed before it is empty";
    ASSERT_EQ(times(PushDuty::double_free), 0u);
    u32 count = 0, length = 0;
    for (const Block* list = take_remote(span, &count); list != nullptr; list = next_of(list)) ++length;
    ASSERT_EQ(count, capacity);
    ASSERT_EQ(length, capacity);
  }
}

}  // namespace
}  // namespace coffer
