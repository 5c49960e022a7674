// SPDX-License-Identifier: MIT
// Spans that are taken away from their owners, in every order of steps with a few switches: what a remote push claims
// while the owner frees, allocates, ends or has gone on to another span. One thread runs at a time, and sees what the
// others wrote: that a barrier reaches every processor is not tried here (unit_heap BusyOwner, and the models).
#include <gtest/gtest.h>

#include "interleavings/lives.hpp"

namespace coffer {
namespace {

using namespace test;

// --- A push claims while the owner frees. ---

FRESH_TEST(TakingOrders, AFloatingSpanIsTakenWhileItsOwnerFrees) {
  LifeWithBrackets life;
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_floating_span();
                   life.fill_mailbox();
                 },
                 [&] {
                   give(blocks[0]);
                   give(blocks[1]);
                   give(blocks[2]);
                 }},
                other([&] {
                  push_each(blocks, 3, 5);
                  settle_unsettled();
                })},
               [&] { give_many(blocks, 5); });
}

FRESH_TEST(TakingOrders, AReusableSpanIsTakenWhileItsOwnerFrees) {
  LifeWithBrackets life(usize{1} << 20);
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_floating_span();
                   give_many(blocks, 0, 3);
                   life.fill_mailbox();
                   ASSERT_EQ(state_of(span_of(blocks[0])), SpanState::reusable);
                 },
                 [&] { give_many(blocks, 3, 6); }},
                other([&] {
                  push_each(blocks, 6, 9);
                  settle_unsettled();
                })},
               [&] { give_many(blocks, 9); });
}

// The owner's last frees against those of others, to the end of the span.
FRESH_TEST(TakingOrders, BothFreeAllOfATakenSpan) {
  LifeWithBrackets life;
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_floating_span();
                   give_many(blocks, 0, 1);
                   life.fill_mailbox();
                 },
                 [&] {
                   give(blocks[1]);
                   give(blocks[2]);
                   close_chain(t_heap);
                 }},
                other([&] {
                  push(blocks, 3, kBlocks);
                  settle_unsettled();
                })},
               [&] { give_many(blocks, kBlocks); });
}

// --- A hot span. ---

FRESH_TEST(TakingOrders, AHotSpanIsTakenWhileItsOwnerRefills) {
  LifeWithBrackets life;
  Blocks blocks, more;
  life.explore({{[&] {
                   blocks = take_span();
                   give_many(blocks, 0, 2);
                   life.fill_mailbox();
                   more.clear();
                   ASSERT_EQ(state_of(span_of(blocks[2])), SpanState::hot);
                 },
                 [&] {
                   for (u32 i = 0; i < 3; ++i) more.push_back(take(kBytes));
                 }},
                other([&] {
                  push(blocks, 2, 9);
                  push(blocks, 9, 12);
                  settle_unsettled();
                })},
               [&] { give_different({from(blocks, 12), more}); });
}

// The thread that slept goes on with what it had in its list, while another heap works with the span.
// Of a size of which two make a list among several heaps, so that one stays on it.
FRESH_TEST(TakingOrders, AHotSpanIsTakenAndAdoptedWhileItsOwnerAllocates) {
  constexpr usize kHalf = kBytes / 2;
  constexpr u32 kTwice = kSlotBytes / kHalf;
  Life life;
  Blocks blocks, more, others;
  life.explore({{[&] {
                   blocks = take_many(kTwice - 1, kHalf);
                   life.fill_mailbox();
                   more.clear();
                   ASSERT_NE(t_heap->blocks[class_of(kHalf)].get(), nullptr);
                 },
                 [&] {
                   for (u32 i = 0; i < 2; ++i) more.push_back(take(kHalf));
                   give(more[0]);
                 }},
                {[&] {
                   own_heap();
                   others.clear();
                 },
                 [&] {
                   push(blocks, 0, kTwice / 2);
                   for (u32 i = 0; i < 2; ++i) others.push_back(take(kHalf));
                 }}},
               [&] { give_different({from(blocks, kTwice / 2), from(more, 1), others}); });
}

FRESH_TEST(TakingOrders, AHotSpanIsTakenWhileItsOwnerEmptiesIt) {
  LifeWithBrackets life(usize{1} << 20);
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_many(kBlocks, kBytes);
                   Span* span = span_of(blocks[0]);
                   life.fill_mailbox();
                   set_countdown(span, 0, 2);
                 },
                 [&] {
                   give(blocks[0]);
                   give(blocks[1]);
                 }},
                other([&] {
                  push(blocks, 2, 9);
                  push(blocks, 9, kBlocks);
                  settle_unsettled();
                })},
               [] {});
}

// --- Mail. ---

FRESH_TEST(TakingOrders, AMailboxIsRobbedWhileItsOwnerTakesItsMail) {
  LifeWithBrackets life(usize{1} << 20);
  Blocks first, second, more;
  life.explore({{[&] {
                   first = take_span();
                   second = take_span();
                   more = {take(kBytes)};
                 },
                 [&] { take_mail(t_heap); }},
                other([&] {
                  push(first, 0, 3);
                  push(second, 0, 3);
                }),
                robber()},
               [&] {
                 give_many(first, 3);
                 give_many(second, 3);
                 give_many(more);
               });
}

FRESH_TEST(TakingOrders, AHotSpanIsMailedAndRobbedWhileItsOwnerUsesIt) {
  LifeWithBrackets life(usize{1} << 20);
  Blocks blocks, more;
  life.explore({{[&] {
                   blocks = take_span();
                   push(blocks, 0, 8);
                   ASSERT_EQ(state_of(span_of(blocks[0])), SpanState::claimed);
                   more.clear();
                 },
                 [&] {
                   give(blocks[8]);
                   more.push_back(take(kBytes));
                   more.push_back(take(kBytes));
                 }},
                robber()},
               [&] { give_different({from(blocks, 9), more}); });
}

// An idle span is robbed while its owner makes it hot again.
FRESH_TEST(TakingOrders, AnEmptyReusableSpanIsRobbedWhileItsOwnerWantsIt) {
  LifeWithBrackets life(usize{1} << 20);
  void* block = nullptr;
  life.explore({{[] {
                   own_heap();
                   let_come_back(kTwoKiB);
                   give(take(kBytes));
                   ASSERT_EQ(ring_length(t_heap, kTwoKiB), 1u);
                 },
                 [&] { block = take(kBytes); }},
                robber()},
               [&] { give(block); });
}

// --- Settlers. ---

FRESH_TEST(TakingOrders, TwoSettleWhileTheOldOwnerFrees) {
  LifeWithBrackets life;
  Blocks first, second;
  life.explore({{[&] {
                   first = take_span();
                   second = take_floating_span();
                   life.fill_mailbox();
                   push(first, 0, 2);
                   push(second, 0, 2);
                   ASSERT_EQ(unsettled_bytes(), 2 * kSlotBytes);
                 },
                 [&] { give(first[2]); }},
                other([&] {
                  settle_unsettled();
                  push(second, 2, 3);
                }),
                other([&] {
                  push(first, 3, 4);
                  settle_unsettled();
                })},
               [&] {
                 give_many(first, 4);
                 give_many(second, 3);
               });
}

FRESH_TEST(TakingOrders, OneSettlesWhileAnotherFreesAllOfTheSpan) {
  Life life;
  Blocks blocks;
  life.explore({{[&] {
                   Worker owner;
                   owner.run([&] {
                     blocks = take_span();
                     give(take(kBytes));
                   });
                   owner.end();
                   push(blocks, 0, 2);
                   ASSERT_EQ(unsettled_bytes(), kSlotBytes);
                   own_heap();
                 },
                 [] { settle_unsettled(); }},
                other([&] { push_each(blocks, 2, 4); }),
                other([&] {
                  push(blocks, 4, kBlocks);
                  settle_unsettled();
                })},
               [] {});
}

// --- Stale names. ---

// Taken, settled, ended, and made anew by the old owner in another class, while its hot pointer and its ring still name
// the record.
FRESH_TEST(TakingOrders, TheOldOwnerMakesTheRecordAnewInAnotherClass) {
  constexpr usize kOther = 1024;
  LifeWithBrackets life(usize{1} << 20);
  Blocks hot, ring, more;
  life.explore({{[&] {
                   ring = take_span();
                   hot = take_span();
                   give_many(ring, 0, 2);
                   life.fill_mailbox();
                   ASSERT_EQ(state_of(span_of(hot[0])), SpanState::hot);
                   ASSERT_EQ(ring_length(t_heap, kTwoKiB), 1u);
                   more.clear();
                 },
                 [&] {
                   more.push_back(take(kOther));
                   more.push_back(take(kOther));
                   give(more[1]);
                   more[1] = take(kBytes);
                   more.push_back(take(kOther));
                 }},
                other([&] {
                  push(hot, 0, kBlocks);
                  push(ring, 2, kBlocks);
                  settle_unsettled();
                })},
               [&] { give_different({more}); });
}

// Taken, settled, adopted by another heap, used up, and freed there, while it still stands on its old owner's ring.
FRESH_TEST(TakingOrders, AnotherHeapUsesASpanThatStandsOnTheOldOwnersRing) {
  Life life(usize{1} << 20);
  Blocks blocks, more, others;
  life.explore({{[&] {
                   blocks = take_span();
                   more = take_span();
                   give_many(blocks, 0, 2);
                   life.fill_mailbox();
                   ASSERT_EQ(ring_length(t_heap, kTwoKiB), 1u);
                 },
                 [&] { more.push_back(take(kBytes)); }},
                {[&] {
                   own_heap();
                   others.clear();
                 },
                 [&] {
                   push(blocks, 2, 4);
                   for (u32 i = 0; i < 5; ++i) others.push_back(take(kBytes));
                   for (u32 i = 0; i < 3; ++i) give(others[i]);
                 }}},
               [&] { give_different({from(blocks, 4), more, from(others, 3)}); });
}

// --- The end of a thread. ---

FRESH_TEST(TakingOrders, AThreadEndsAndTheNextFreesOnItsRecord) {
  LifeWithBrackets life;
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_floating_span();
                   give(blocks[0]);
                 },
                 [] {}},
                other([&] { push_each(blocks, 1, 4); }),
                {[] { ASSERT_EQ(t_heap, &g_null_heap); },
                 [&] {
                   give(blocks[4]);  // a local free, if it got the record
                   give(blocks[5]);
                 }}},
               [&] { give_many(blocks, 6); });
}

FRESH_TEST(TakingOrders, AThreadEndsWhileItsHotSpanIsClaimed) {
  LifeWithBrackets life(usize{1} << 20);
  Blocks blocks;
  life.explore(
      {{[&] { blocks = take_many(kBlocks - 1, kBytes); }, [] {}}, other([&] { push(blocks, 0, 8); }), robber()},
      [&] { give_many(blocks, 8); });
}

}  // namespace
}  // namespace coffer
