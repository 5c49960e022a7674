// SPDX-License-Identifier: MIT
// Heaps that are seized, in every order of steps with a few switches: while their threads allocate, free, take their
// mail, end or begin. One thread runs at a time, and sees what the others wrote: that a barrier reaches every processor
// is not tried here (models/seize.pml).
#include <gtest/gtest.h>

#include "heap/refill.hpp"
#include "interleavings/lives.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr usize kMuch = usize{1} << 20;

uptr address_of(const void* block) { return reinterpret_cast<uptr>(block); }

// Whoever has a heap whole is alone with it: no second one, and not its thread.
Atomic<Heap*> g_had;
void have(Heap* heap) {
  EXPECT_EQ(g_had.exchange(heap, relaxed), nullptr) << "two have a heap";
  empty_heap(heap);
  EXPECT_EQ(g_had.exchange(nullptr, relaxed), heap);
}

// --- Fast paths. ---

FRESH_TEST(SeizingOrders, AHeapIsEmptiedWhileItsThreadAllocatesAndFrees) {
  SeizedLife life(kMuch);
  Blocks blocks, more;
  life.explore(
      {{[&] {
          blocks = take_span();
          give_many(blocks, 0, 4);
          more.clear();
          more.push_back(take(kBytes));
          ASSERT_NE(t_heap->blocks[kTwoKiB].get(), nullptr);
        },
        [&] {
          more.push_back(take(kBytes));
          give(blocks[4]);
          more.push_back(take(kBytes));
        }},
       seizer()},
      [&] { give_different({from(blocks, 5), more}); }, 3);
}

// Each stops between any two accesses.
FRESH_TEST(SeizingOrders, AHeapIsEmptiedInTheMidstOfMalloc) {
  TornLife life(kMuch);
  Blocks blocks, more;
  life.explore({{[&] {
                   blocks = take_span();
                   give_many(blocks, 0, 4);
                   more = {take(kBytes)};
                 },
                 [&] { more.push_back(take(kBytes)); }},
                seizer()},
               [&] { give_different({from(blocks, 4), more}); });
}

FRESH_TEST(SeizingOrders, AHeapIsEmptiedInTheMidstOfFree) {
  TornLife life(kMuch);
  Blocks blocks;
  life.explore({{[&] { blocks = take_floating_span(); }, [&] { give_many(blocks, 0, 2); }}, seizer()},
               [&] { give_many(blocks, 2); });
}

FRESH_TEST(SeizingOrders, ANoteIsLeftInTheMidstOfFree) {
  TornLife life(kMuch);
  Blocks blocks;
  const auto look = [] { steal_from_idle_heaps(nullptr, 1024); };
  life.explore(
      {{[&] { give_many(blocks = take_span(), 0, 12); }, [&] { give(blocks[12]); }}, other([&] { (look(), look()); })},
      [&] { give_many(blocks, 13); });
}

FRESH_TEST(SeizingOrders, ASpanIsCollectedInTheMidstOfFree) {
  TornLife life;
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_floating_span();
                   give(blocks[0]);
                 },
                 [&] { give(blocks[1]); }},
                other([&] { push(blocks, 2, 6); })},
               [&] { give_many(blocks, 6); });
}

FRESH_TEST(SeizingOrders, TheHotSpanIsCollectedInTheMidstOfMallocAndFree) {
  TornLife life;
  Blocks blocks, more;
  life.explore({{[&] {
                   blocks = take_span();
                   give_many(blocks, 0, 4);
                   more = {take(kBytes)};
                 },
                 [&] {
                   more.push_back(take(kBytes));
                   give(blocks[4]);
                 }},
                other([&] { push(blocks, 5, 14); })},
               [&] { give_different({from(blocks, 14), more}); });
}

// What malloc pops from is another heap's as soon as it was seized.
FRESH_TEST(SeizingOrders, AHotSpanIsSeizedAndAdoptedWhileItsOwnerAllocates) {
  SeizedLife life(kMuch);
  Blocks blocks, more, others;
  life.explore({{[&] {
                   blocks = take_span();
                   give_many(blocks, 0, 4);
                   more.clear();
                   more.push_back(take(kBytes));
                 },
                 [&] {
                   for (u32 i = 0; i < 2; ++i) more.push_back(take(kBytes));
                 }},
                {[&] {
                   own_heap();
                   others.clear();
                 },
                 [&] {
                   steal_from_heaps(Take::pages);
                   for (u32 i = 0; i < 2; ++i) others.push_back(take(kBytes));
                 }}},
               [&] { give_different({from(blocks, 4), more, others}); });
}

FRESH_TEST(SeizingOrders, AHeapIsEmptiedWhileItsThreadFreesItsLastBlocks) {
  SeizedLife life(kMuch);
  Blocks blocks;
  life.explore({{[&] { blocks = take_floating_span(); }, [&] { give_many(blocks, 12, 16); }}, other([&] {
                  push(blocks, 0, 12);
                  steal_from_heaps(Take::pages);
                })},
               [&] { give_many(blocks, kBlocks); });
}

FRESH_TEST(SeizingOrders, AHeapIsEmptiedWhileItsThreadClears) {
  SeizedLife life(kMuch);
  Blocks blocks, more;
  life.explore({{[&] {
                   blocks = take_span();
                   give_many(blocks, 0, 3);
                   more.clear();
                 },
                 [&] {
                   for (u32 i = 0; i < 2; ++i) more.push_back(Allocator::allocate_zeroed(kBytes));
                 }},
                seizer(),
                seizer(Take::empty_spans)},
               [&] { give_different({from(blocks, 3), more}); });
}

// --- Mail of a thread in the midst of a fast path. ---

// Each claim is collected: the span that the owner just frees into must stay in the box, the others go.
FRESH_TEST(SeizingOrders, ASpanIsCollectedWhileItsOwnerFreesIntoIt) {
  SeizedLife life;
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_floating_span();
                   give(blocks[0]);  // one short of the event
                 },
                 [&] {
                   give(blocks[1]);
                   give(blocks[2]);
                 }},
                other([&] { push_each(blocks, 3, 6); })},
               [&] { give_many(blocks, 6); });
}

FRESH_TEST(SeizingOrders, OneSpanIsCollectedWhileItsOwnerFreesIntoAnother) {
  SeizedLife life;
  Blocks first, second;
  life.explore({{[&] {
                   first = take_span();
                   second = take_floating_span();
                 },
                 [&] {
                   give(second[0]);
                   give(first[0]);
                 }},
                other([&] {
                  push(first, 2, 5);
                  push(second, 2, 5);
                })},
               [&] {
                 give_many(first, 5);
                 give_many(second, 5);
                 give(first[1]);
                 give(second[1]);
               });
}

// The event of one span while the other is placed on the same ring.
FRESH_TEST(SeizingOrders, OneSpanIsPlacedWhileItsOwnerPlacesAnother) {
  TornLife life(kMuch);
  Blocks first, second;
  Heap* heap = nullptr;
  life.explore({{[&] {
                   first = take_span();
                   second = take_floating_span();
                   give(second[0]);
                   push(first, 0, 2);
                   heap = own_heap();
                   ASSERT_EQ(state_of(span_of(first[0])), SpanState::claimed);
                 },
                 [&] { give(second[1]); }},
                {nullptr, [&] { seize(&heap, 1, &release_idle); }}},
               [&] {
                 give_many(first, 2);
                 give_many(second, 2);
               });
}

// The record of a later slice is what the owner is at work on first.
FRESH_TEST(SeizingOrders, ASpanIsCollectedWhileItsOwnerFreesInALaterSlice) {
  constexpr usize kLarge = 20 * 1024;
  TornLife life;
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_many(kFlatLayout[class_of(kLarge)].capacity + 1, kLarge);
                   ASSERT_EQ(role_of(blocks[0]), SpanLife::floating);
                   ASSERT_GT(span_of(blocks[0])->slices.get(), 1u);
                   ASSERT_NE(slice_record(arena_of(address_of(blocks[3])), address_of(blocks[3])), span_of(blocks[3]));
                 },
                 [&] {
                   give(blocks[3]);
                   give(blocks[4]);
                 }},
                other([&] { push_each(blocks, 0, 3); })},
               [&] { give_many(blocks, 5); });
}

FRESH_TEST(SeizingOrders, BothFreeAllOfASpanThatIsCollected) {
  SeizedLife life;
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_floating_span();
                   give(blocks[0]);
                 },
                 [&] {
                   give(blocks[1]);
                   give(blocks[2]);
                 }},
                other([&] { push(blocks, 3, kBlocks); })},
               [&] { give_many(blocks, kBlocks); });
}

FRESH_TEST(SeizingOrders, AHotSpanIsCollectedWhileItsOwnerRefills) {
  SeizedLife life;
  Blocks blocks, more;
  life.explore({{[&] {
                   blocks = take_span();
                   give_many(blocks, 0, 2);
                   more.clear();
                   ASSERT_EQ(role_of(blocks[2]), SpanLife::hot);
                 },
                 [&] {
                   for (u32 i = 0; i < 3; ++i) more.push_back(take(kBytes));
                 }},
                other([&] {
                  push(blocks, 2, 9);
                  push(blocks, 9, 12);
                })},
               [&] { give_different({from(blocks, 12), more}); });
}

FRESH_TEST(SeizingOrders, ASpanInTheMailboxIsSeizedWhileItsOwnerTakesIt) {
  SeizedLife life(kMuch);
  Blocks first, more;
  life.explore({{[&] {
                   first = take_span();
                   more = {take(kBytes)};
                 },
                 [&] {
                   const Inside inside;
                   if (inside.heap() != &g_null_heap) take_mail(inside.heap());
                 }},
                other([&] { push(first, 0, 3); }),
                seizer()},
               [&] {
                 give_many(first, 3);
                 give_many(more);
               });
}

FRESH_TEST(SeizingOrders, AMailboxIsSeizedWhileItsOwnerTakesItsMail) {
  SeizedLife life(kMuch);
  Blocks first, second, more;
  life.explore(
      {{[&] {
          first = take_span();
          second = take_span();
          more = {take(kBytes)};
        },
        [&] {
          const Inside inside;
          if (inside.heap() != &g_null_heap) take_mail(inside.heap());
        }},
       other([&] {
         push(first, 0, 3);
         push(second, 0, 3);
       }),
       seizer()},
      [&] {
        give_many(first, 3);
        give_many(second, 3);
        give_many(more);
      },
      1);  // two switches are more orders than can be tried
}

// The owner makes its span shared, ends it, or goes on with it, while a push claims it.
FRESH_TEST(SeizingOrders, ASpanIsClaimedWhileItsHeapIsEmptied) {
  SeizedLife life(kMuch);
  Blocks blocks;
  life.explore({{[&] {
                   blocks = take_span();
                   give_many(blocks, 0, 3);
                 },
                 [&] { steal_from_heaps(Take::pages); }},
                other([&] { push_each(blocks, 3, 12); })},
               [&] { give_many(blocks, 12); });
}

// --- Slow paths. ---

FRESH_TEST(SeizingOrders, AnEmptyReusableSpanIsSeizedWhileItsOwnerWantsIt) {
  SeizedLife life(kMuch);
  void* block = nullptr;
  life.explore({{[] {
                   Blocks blocks = take_floating_span();
                   give_many(blocks);
                   ASSERT_EQ(ring_length(t_heap, kTwoKiB), 1u);
                 },
                 [&] { block = take(kBytes); }},
                seizer(Take::empty_spans)},
               [&] { give(block); });
}

FRESH_TEST(SeizingOrders, AThreadFreesToOthersWhileItsHeapIsSeized) {
  SeizedLife life(kMuch);
  Blocks blocks, mine;
  life.explore(
      {{[&] {
          Worker owner;
          owner.run([&] { blocks = take_floating_span(); });
          owner.end();
          mine = {take(512)};  // another heap than that one
          mine.push_back(take(512));
        },
        [&] {
          give(blocks[0]);
          give(mine[0]);
          give(blocks[1]);
          give(blocks[2]);
        }},
       seizer(),
       seizer()},
      [&] {
        give_many(blocks, 3);
        give(mine[1]);
      },
      1);
}

FRESH_TEST(SeizingOrders, OneHasAHeapAtATime) {
  SeizedLife life(kMuch);
  Blocks blocks;
  Heap* heap = nullptr;
  const auto seize_it = [&] { seize(&heap, 1, &have); };
  life.explore({{[&] {
                   heap = own_heap();
                   blocks = take_floating_span();
                 },
                 [&] {
                   give_many(blocks, 0, 3);
                   const Inside inside;
                   EXPECT_TRUE(inside.heap() == &g_null_heap || g_had.load(relaxed) == nullptr);
                 }},
                {nullptr, seize_it},
                {nullptr, seize_it}},
               [&] { give_many(blocks, 3); });
}

// Two that are in their slow paths want each other's heap: none waits, and both get a block.
FRESH_TEST(SeizingOrders, TwoStealFromEachOther) {
  SeizedLife life(kMuch);
  Blocks rest[2];
  void* got[2];
  const auto robber = [&](u32 i) {
    return Actor{[&, i] {
                   rest[i] = take_floating_span();
                   give_many(rest[i], 0, 8);
                 },
                 [&, i] {
                   steal_from_heaps(Take::empty_spans);
                   got[i] = take(kBytes);
                 }};
  };
  life.explore(
      {robber(0), robber(1)}, [&] { give_different({{got[0], got[1]}, from(rest[0], 8), from(rest[1], 8)}); }, 1);
}

// --- Threads that end and begin. ---

FRESH_TEST(SeizingOrders, AThreadEndsWhileItsHeapIsSeized) {
  SeizedLife life(kMuch);
  Blocks blocks;
  Heap* heap = nullptr;
  life.explore({{[&] {
                   heap = own_heap();
                   blocks = take_floating_span();
                 },
                 [&] { give(blocks[0]); }},
                {nullptr, [&] { seize(&heap, 1, &have); }},
                other([&] { push(blocks, 1, 4); })},
               [&] { give_many(blocks, 4); });
}

// The next thread gets the heap while somebody has it, who saw it without a thread.
FRESH_TEST(SeizingOrders, AHeapWithoutAThreadIsSeizedWhileAThreadGetsIt) {
  TornLife life(kMuch);
  Blocks blocks, more;
  Heap* heap = nullptr;
  life.explore({{[&] {
                   Worker owner;
                   owner.run([&] {
                     heap = own_heap();
                     blocks = take_floating_span();
                     give_many(blocks, 0, 3);
                   });
                   owner.end();
                   more.clear();
                 },
                 [&] {
                   more.push_back(take(kBytes));
                   give(blocks[3]);
                 }},
                {nullptr, [&] { seize(&heap, 1, &have); }}},
               [&] { give_different({from(blocks, 4), more}); });
}

// Mail is seen by who puts it in, or by who ends.
FRESH_TEST(SeizingOrders, MailComesWhileAThreadEnds) {
  SeizedLife life(kMuch);
  Blocks blocks;
  life.explore({{[&] { blocks = take_floating_span(); }, [] {}}, other([&] { push_each(blocks, 0, 3); }), other([&] {
                  push(blocks, 3, 8);
                })},
               [&] { give_many(blocks, 8); });
}

FRESH_TEST(SeizingOrders, AThreadEndsAndTheNextFreesOnItsRecord) {
  SeizedLife life;
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

// --- The fallback heap. ---

FRESH_TEST(SeizingOrders, TheFallbackHeapIsSeizedWhileOneAllocatesFromIt) {
  SeizedLife life(kMuch);
  Blocks blocks;
  u32 pushed = 0;
  life.explore({{[&] {
                   blocks.clear();
                   pushed = 0;
                 },
                 [&] {
                   bool zero = false;
                   for (u32 i = 0; i < 2; ++i) {
                     const FallbackHeap fallback;
                     blocks.push_back(allocate_block(fallback.get(), kTwoKiB, false, &zero));
                   }
                 }},
                other([&] {
                  if (!blocks.empty()) push(blocks, 0, ++pushed);
                  steal_from_heaps(Take::pages);
                })},
               [&] { give_different({from(blocks, pushed)}); });
}

}  // namespace
}  // namespace coffer
