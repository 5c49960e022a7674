// SPDX-License-Identifier: MIT
// The life of a span between its owner, threads that free its blocks, an adopter and a thread that gets its owner's
// heap: every order of their steps with a few switches. Whatever happens, each block can be freed once, and in the end
// nothing is held.
#include <gtest/gtest.h>

#include "interleavings/lives.hpp"
#include "mixed/mixed.hpp"

namespace coffer {
namespace {

using namespace test;

FRESH_TEST(SpanLifeOrders, BothSidesReachTheThreshold) {
  Life life;
  Blocks blocks;
  life.explore({{[&] { blocks = take_floating_span(); },
                 [&] {
                   give(blocks[0]);
                   give(blocks[1]);
                   give(blocks[2]);
                 }},
                other([&] { push_each(blocks, 3, 6); })},
               [&] { give_many(blocks, 6); });
}

// Between the owner's look at the word and the number at which it is claimed, which falls.
FRESH_TEST(SpanLifeOrders, ASpanBecomesReusableWhileAnotherFrees) {
  Life life(usize{1} << 20);
  Blocks blocks;
  Span* span = nullptr;
  life.explore(
      {{[&] {
          blocks.clear();
          span = make_reusable(kBlocks / 2, kTwoKiB, &blocks);
          ASSERT_EQ(claim_at_of(span), kNever);
        },
        [&] { place_again(span); }},
       other([&] {
         push(blocks, 0, 1);
         push(blocks, 1, 4);
       })},
      [&] {
        // A push that reaches the number claims the span, so that it gets to somebody who can use it.
        const bool owned = state_of(span) == SpanState::owned;
        ASSERT_TRUE(!owned || remote_count(span) < claim_at_of(span));
        give_many(blocks, 4);
      },
      3);
}

FRESH_TEST(SpanLifeOrders, TheOwnerRunsOutWhileAnotherFrees) {
  Life life;
  Blocks blocks;
  std::vector<void*> more;
  life.explore({{[&] {
                   blocks = take_span();
                   more.clear();
                   ASSERT_EQ(role_of(blocks[0]), SpanLife::hot);
                 },
                 [&] {
                   for (u32 i = 0; i < 3; ++i) more.push_back(take(kBytes));
                 }},
                other([&] { push_each(blocks, 0, 3); })},
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
                   blocks = take_floating_span();
                   give(blocks[0]);  // floats, one short of the threshold
                 },
                 [] {}},
                other([&] {
                  push_each(blocks, 1, 4);
                  push(blocks, 4, kBlocks);
                })},
               [&] { give_many(blocks, kBlocks); });
}

FRESH_TEST(SpanLifeOrders, TheOwnerEndsWhileTwoFree) {
  Life life;
  Blocks blocks;
  life.explore({{[&] { blocks = take_floating_span(); }, [] {}}, other([&] { push(blocks, 0, 2); }), other([&] {
                  push(blocks, 2, kBlocks);
                })},
               [&] { give_many(blocks, kBlocks); });
}

FRESH_TEST(SpanLifeOrders, AnotherThreadGetsTheHeapOfTheOne) {
  Life life;
  Blocks blocks;
  void* more = nullptr;
  life.explore({{[&] { blocks = take_floating_span(); }, [] {}},
                other([&] { push(blocks, 0, 2); }),
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
                   blocks = take_shared_span();
                   own_heap();
                 },
                 [&] {
                   push(blocks, 0, 1);
                   push(blocks, 1, 8);
                 }},
                other([&] { push(blocks, 8, kBlocks); }),
                other([&] { more = take(kBytes); })},
               [&] { give(more); });
}

FRESH_TEST(SpanLifeOrders, TwoAdoptAndTheLastBlocksAreFreed) {
  Life life;
  Blocks blocks;
  void *one = nullptr, *two = nullptr;
  life.explore({{[&] {
                   blocks = take_shared_span();
                   own_heap();
                   give_now(blocks, 0, 14);
                   ASSERT_EQ(state_of(span_of(blocks[15])), SpanState::listed);
                 },
                 [&] { push_each(blocks, 14, kBlocks); }},
                other([&] { one = take(kBytes); }),
                other([&] { two = take(kBytes); })},
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
                   blocks = take_floating_span();
                   give_many(blocks, 0, 3);  // reusable within the slack of a sixteenth; the next event shares
                 },
                 [&] { give_many(blocks, 3, 6); }},
                other([&] { push(blocks, 6, kBlocks); }),
                other([&] { more = take(kBytes); })},
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
                other([&] { push_each(blocks, 0, 4); })},
               [&] {
                 give_many(blocks, 4, 8);
                 give_many(blocks, 9);
                 give_many(more);
               });
}

// --- What a heap holds. ---

// Whoever meets a span finds that its heap has counted it: for it may be taken at once, and end, before the heap's
// thread goes on.
class CountedLife : public Life {
 public:
  explicit CountedLife(usize slack = 0) : Life(slack) {
    watch_heaps([](Heap* heap) { watch(&heap->held, sizeof heap->held); });
  }
  // `run`, and at any moment of it a look.
  void explore_acquiring(const std::function<void()>& prepare, const std::function<void()>& run,
                         const std::function<void()>& free_rest) {
    Heap* heap = nullptr;
    bool at_it = false;
    explore({{[&] {
                prepare();
                heap = own_heap();
              },
              [&] {
                at_it = true;
                run();
                at_it = false;
              }},
             {nullptr,
              [&] {
                if (at_it) {
                  EXPECT_LE(owned_by(heap), held_by(heap));
                }
              }}},
            free_rest, 1);
  }

 private:
  static usize owned_by(const Heap* heap) {
    usize bytes = 0;
    for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
      if (use != ChunkUse::spans) return;
      for_each_record(arena, index, [&](const Span* span, SliceUse slice_use) {
        if (slice_use == SliceUse::span && owner_of(span) == heap) bytes += span_bytes(span);
      });
    });
    return bytes;
  }
};

FRESH_TEST(HeldOrders, ASpanIsCountedBeforeItIsMade) {
  CountedLife life;
  void* block = nullptr;
  life.explore_acquiring([] {}, [&] { block = take(kBytes); }, [&] { give(block); });
}

FRESH_TEST(HeldOrders, ASpanIsCountedBeforeItIsAdopted) {
  CountedLife life;
  Blocks blocks;
  void* more = nullptr;
  life.explore_acquiring(
      [&] {
        blocks = take_shared_span();
        give_now(blocks, 0, 8);
      },
      [&] { more = take(kBytes); },
      [&] {
        give_many(blocks, 8);
        give(more);
      });
}

FRESH_TEST(HeldOrders, AListedSpanIsCountedBeforeItIsConverted) {
  CountedLife life;
  Blocks blocks;
  void* more = nullptr;
  life.explore_acquiring(
      [&] {
        changeable_options().mixed = config::MixedPolicy::never;
        blocks = take_shared_span();
        give_now(blocks, 0, 8);
        changeable_options().mixed = config::MixedPolicy::always;
      },
      [&] { more = take(kBytes / 2); },
      [&] {
        EXPECT_TRUE(is_mixed(span_of(more)));
        give_many(blocks, 8);
        give(more);
      });
}

}  // namespace
}  // namespace coffer
