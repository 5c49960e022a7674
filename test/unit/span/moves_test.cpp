// SPDX-License-Identifier: MIT
// The table of moves (kMoves) is what the functions of span.cpp do: each is called in every state that it may meet,
// with every count that matters, and what it makes of the word is compared with the table. (Those of mixed spans are in
// test/unit/mixed.)
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "fresh.hpp"
#include "ground.hpp"
#include "heap/heap.hpp"
#include "span/emptiness.hpp"
#include "span/span.hpp"

namespace coffer {
namespace {

using test::start_ground;
using Moves = std::set<std::pair<int, int>>;

constexpr ClassIndex kClass = 3;  // 64 bytes, 512 blocks
Heap g_heap;

Moves told_of(const std::string& made_by) {
  Moves moves;
  for (const Move& move : kMoves) {
    if (made_by == move.made_by) moves.insert({static_cast<int>(move.from), static_cast<int>(move.to)});
  }
  return moves;
}

void set_word(Span* span, SpanState state, u32 count) {
  span->remote.store(load_word(span, relaxed).with(state, count, count != 0 ? 9 : 0).bits(), relaxed);
}

bool is_owned(const Span* span) { return load_word(span, relaxed).state() == SpanState::owned; }

// What `call` does in these states. A move is another state, or a new tag. claim_at: 0 is the threshold.
Moves seen_by(std::initializer_list<SpanState> states, const std::function<void(Span*)>& call, u32 claim_at = 0) {
  Moves moves;
  for (const SpanState state : states) {
    const u32 capacity = shape_of(kClass).capacity, threshold = reuse_threshold(capacity);
    for (const u32 count : {0u, 1u, threshold - 1, threshold, capacity / 2, capacity - 1, capacity}) {
      Span* span = make_span(kClass, &g_heap);
      // Of a span in use, others hold blocks; the rest of an owned one's are out, too.
      span->carved.set(capacity);
      set_countdown(span, 0, kNever);
      set_word(span, state, count);
      span->claim_at.store(claim_at != 0 ? claim_at : threshold, relaxed);
      const RemoteWord before = load_word(span, relaxed);
      call(span);
      const RemoteWord after = load_word(span, relaxed);
      if (after.state() != before.state() || after.tag() != before.tag()) {
        moves.insert({static_cast<int>(before.state()), static_cast<int>(after.state())});
      }
      if (after.state() == SpanState::free && before.state() != SpanState::free) continue;
      set_word(span, SpanState::claimed, 0);
      end_span(span);
    }
  }
  return moves;
}

constexpr std::initializer_list<SpanState> kAny = {SpanState::free,   SpanState::owned,  SpanState::claimed,
                                                   SpanState::shared, SpanState::listed, SpanState::mixed};

FRESH_TEST(Moves, OfEveryFunctionAreThoseOfTheTable) {
  start_ground();
  ASSERT_EQ(kAny.size(), kSpanStates);
  const auto push = [](Span* span) {
    Block* block = reinterpret_cast<Block*>(span->first_block);
    push_remote(span, block, block, 1);
  };
  EXPECT_EQ(seen_by(kAny, push), told_of("push_remote"));
  // A claim_at that rises needs no move, one that falls does.
  const auto reusable = [](Span* span) { EXPECT_EQ(mark_reusable(span), is_owned(span)); };
  const auto floating = [](Span* span) { mark_floating(span); };
  EXPECT_EQ(seen_by(kAny, reusable, 1), Moves{});
  EXPECT_EQ(seen_by(kAny, floating, 1), Moves{});
  EXPECT_EQ(seen_by(kAny, reusable, kNever), told_of("mark_reusable"));
  EXPECT_EQ(seen_by(kAny, floating, kNever), told_of("mark_floating"));
  EXPECT_EQ(seen_by(kAny, [](Span* span) { claim(span); }), told_of("claim"));
  EXPECT_EQ(seen_by(kAny, [](Span* span) { list_early(span); }), told_of("list_early"));
  EXPECT_EQ(seen_by(kAny, [](Span* span) { mark_adopted(span, &g_heap); }), told_of("mark_adopted"));
  EXPECT_EQ(seen_by(kAny, [](Span* span) { mark_looked_at(span); }), told_of("mark_looked_at"));
  // Their callers have the span: its owner, or its claimant.
  const auto take = [](Span* span) {
    u32 count;
    take_remote(span, &count);
  };
  EXPECT_EQ(seen_by({SpanState::owned, SpanState::claimed}, take), told_of("take_remote"));
  EXPECT_EQ(seen_by({SpanState::claimed}, receive_claimed), told_of("receive_claimed"));
  EXPECT_EQ(seen_by({SpanState::claimed}, [](Span* span) { mark_shared(span); }), told_of("mark_shared"));
  // Or who pushed the last block.
  EXPECT_EQ(seen_by({SpanState::claimed, SpanState::shared, SpanState::listed}, [](Span* span) { end_span(span); }),
            told_of("end_span"));
}

FRESH_TEST(Moves, BeginWithMakingASpan) {
  start_ground();
  const Span* span = make_span(kClass, &g_heap);
  EXPECT_EQ(told_of("make_span"),
            (Moves{{static_cast<int>(SpanState::free), static_cast<int>(load_word(span, relaxed).state())}}));
}

}  // namespace
}  // namespace coffer
