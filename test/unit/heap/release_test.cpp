// SPDX-License-Identifier: MIT
// free: what happens at a countdown's end, what others free, and what is not a block.
#include <gtest/gtest.h>

#include <set>

#include "sleeper.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr u32 kMaxChain = 17;  // of 256 bytes

FRESH_TEST(LocalFree, OfAHotSpanWaitsOnItsList) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity);
  Span* span = span_of(blocks[0]);
  give_many(blocks, 0, kCapacity - 1);
  EXPECT_EQ(life_of(span), SpanLife::hot);
  EXPECT_EQ(local_count(span), 0u) << "malloc's list has them";
  EXPECT_EQ(t_heap->blocks[kClass].get(), blocks[kCapacity - 2]);
  EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
  EXPECT_EQ(held_bytes(), kSliceBytes);
  const u64 word = span->remote.load(relaxed);
  give(blocks[kCapacity - 1]);
  EXPECT_EQ(life_of(span), SpanLife::hot) << "also when it is empty";
  EXPECT_EQ(held_bytes(), kSliceBytes);
  EXPECT_EQ(take(), blocks[kCapacity - 1]);
  EXPECT_EQ(local_count(span), 0u);
  give(blocks[kCapacity - 1]);
  EXPECT_EQ(span->remote.load(relaxed), word) << "nothing is done about it";
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
}

FRESH_TEST(LocalFree, MakesAFloatingSpanReusableAtTheThreshold) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity + 1);
  Span* span = span_of(blocks[0]);
  ASSERT_EQ(life_of(span), SpanLife::floating);
  for (u32 i = 0; i < kThreshold; ++i) {
    EXPECT_EQ(life_of(span), SpanLife::floating) << i;
    EXPECT_EQ(t_heap->slack.get(), 0u);
    give(blocks[i]);
    EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
  }
  EXPECT_EQ(life_of(span), SpanLife::reusable);
  EXPECT_EQ(reusable_of(t_heap), std::vector<Span*>{span});
  EXPECT_TRUE(floating_of(t_heap).empty());
  EXPECT_EQ(t_heap->slack.get(), kThreshold * kSize);
  EXPECT_EQ(local_count(span), kThreshold);
  EXPECT_EQ(check_everything(), 0u);
}

// Remote frees short of the threshold are counted at the event.
FRESH_TEST(LocalFree, CountsWhatOthersFreed) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity + 1);
  Worker other;
  other.run([&] { give_now(blocks, 8, 8 + kThreshold - 1); });
  give_many(blocks, 0, kThreshold);
  EXPECT_EQ(t_heap->slack.get(), (2 * kThreshold - 1) * kSize);
}

FRESH_TEST(LocalFree, CountsTheSlackAnewWhenItHasDoubled) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity + 1);
  Span* span = span_of(blocks[0]);
  for (u32 freed = 1; freed < kCapacity; ++freed) {
    give(blocks[freed - 1]);
    // A threshold, and each time that it has doubled.
    const u32 counted = freed < kThreshold ? 0 : u32{1} << highest_bit(freed);
    ASSERT_EQ(t_heap->slack.get(), counted * kSize) << freed;
    ASSERT_EQ(span->ring_slack.get(), counted * kSize);
  }
  // The last one is an event of its own: the span is empty, and counts whole.
  give(blocks[kCapacity - 1]);
  EXPECT_EQ(t_heap->slack.get(), kSliceBytes);
  EXPECT_EQ(life_of(span), SpanLife::reusable) << "it fits into the slack";
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(LocalFree, GivesAnEmptySpanBackAtTheFreeThatEmptiesIt) {
  start_tight(20 * kSize);  // and an eighth of two spans: 28 blocks
  const Blocks blocks = take_many(kCapacity + 1);
  const u64 before = g_arenas.arenas[0].chunks[0].free.load(relaxed);
  give_many(blocks, 0, kCapacity - 1);
  EXPECT_EQ(span_of(blocks[0])->ring_slack.get(), 16 * kSize);
  EXPECT_EQ(g_arenas.arenas[0].chunks[0].free.load(relaxed), before);
  give(blocks[kCapacity - 1]);
  EXPECT_EQ(count_bits(g_arenas.arenas[0].chunks[0].free.load(relaxed)), count_bits(before) + 1);
  EXPECT_EQ(held_bytes(), kSliceBytes);
  EXPECT_EQ(held_by(t_heap), kSliceBytes);
  EXPECT_EQ(t_heap->slack.get(), 0u);
  EXPECT_TRUE(reusable_of(t_heap).empty());
  EXPECT_EQ(span_of(blocks[0]), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

// Both sides short of their next event, and nothing is live: the slack counts half of it.
FRESH_TEST(LocalFree, WhatBothSidesEmptiedUnnoticedIsFoundByWhoNeedsIt) {
  start_heaps(0);
  const Blocks blocks = take_many(kCapacity + 1);
  Span* span = span_of(blocks[0]);
  give_many(blocks, 0, kCapacity - kThreshold);
  ASSERT_EQ(claim_at_of(span), kThreshold);
  push_blocks(blocks, kCapacity - kThreshold, kCapacity - 1);
  give(blocks[kCapacity - 1]);
  EXPECT_EQ(life_of(span), SpanLife::reusable);
  EXPECT_EQ(t_heap->slack.get(), kCapacity / 2 * kSize);
  EXPECT_EQ(check_everything(), 0u);
  steal_from_heaps(Take::empty_spans);
  EXPECT_EQ(span_of(blocks[0]), nullptr);
  EXPECT_EQ(held_bytes(), kSliceBytes);
}

// The owner's event counts what others freed.
FRESH_TEST(LocalFree, SeesAtTheNextEventThatOthersEmptiedTheSpan) {
  start_tight(27 * kSize + kSize / 2);
  const Blocks blocks = take_many(kCapacity + 1);
  Span* span = span_of(blocks[0]);
  push_blocks(blocks, 0, 3);
  give_many(blocks, 3, 7);
  ASSERT_EQ(span->ring_slack.get(), 7 * kSize);
  push_blocks(blocks, 7, 8);
  give_many(blocks, 8, 15);
  ASSERT_EQ(span->ring_slack.get(), 15 * kSize);
  push_blocks(blocks, 15, 17);
  give_many(blocks, 17, kCapacity - 1);
  ASSERT_EQ(life_of(span), SpanLife::reusable);
  give(blocks[kCapacity - 1]);
  EXPECT_EQ(span_of(blocks[0]), nullptr);
  EXPECT_EQ(held_bytes(), kSliceBytes);
}

FRESH_TEST(LocalFree, SharesWhatIsBeyondTheSlack) {
  start_tight(4 * kSize);
  const Blocks blocks = take_many(kCapacity + 1);
  count_as_several();
  Span* span = span_of(blocks[0]);
  // The budget is the option and an eighth of the two spans that are held: twelve blocks.
  constexpr u32 most = 2 * kThreshold;
  give_many(blocks, 0, most);
  EXPECT_EQ(life_of(span), SpanLife::reusable);
  EXPECT_EQ(t_heap->slack.get(), most * kSize);
  give_many(blocks, most, 2 * most);
  EXPECT_EQ(state_of(span), SpanState::listed) << "sixteen";
  EXPECT_EQ(owner_of(span), nullptr);
  EXPECT_EQ(listed_spans(), std::vector<Span*>{span});
  EXPECT_EQ(held_by(t_heap), kSliceBytes);
  EXPECT_EQ(t_heap->slack.get(), 0u);
  EXPECT_EQ(check_everything(), 0u);
  // It is nobody's: its old owner frees as everybody does, and the last free gives it back.
  give_now(blocks, 2 * most, kCapacity - 1);
  EXPECT_EQ(remote_count(span), kCapacity - 1);
  give_now({blocks[kCapacity - 1]});
  EXPECT_EQ(span_of(blocks[0]), nullptr);
  EXPECT_TRUE(listed_spans().empty());
  EXPECT_EQ(check_everything(), 0u);
}

// It frees in no order what nobody else could use: its frees stay its own, until another thread has a heap, too.
FRESH_TEST(LocalFree, AloneItKeepsHalfOfWhatItHoldsAndOfWhatMayBeFree) {
  start_tight(0);
  test::set_free_limit(2 * kThreshold * kSize);
  const Blocks blocks = take_many(3 * kCapacity + 1);
  ASSERT_EQ(attached_heaps(), 1u);
  // Half of four spans is 64 blocks, and half of the option four more.
  for (u32 i = 0; i < 3; ++i) give_many(blocks, i * kCapacity, i * kCapacity + kCapacity / 2);
  for (u32 i = 0; i < 3; ++i) EXPECT_EQ(life_of(span_of(blocks[i * kCapacity + 30])), SpanLife::reusable);
  EXPECT_EQ(t_heap->slack.get(), 48 * kSize);
  EXPECT_TRUE(listed_spans().empty());
  count_as_several();
  for (u32 i = 0; i < 3; ++i) {
    const Inside inside;
    shed_surplus(t_heap);
  }
  EXPECT_EQ(listed_spans().size(), 3u) << "an eighth of what is left is less than one has";
  EXPECT_EQ(t_heap->slack.get(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// --- Spans of several slices. ---

FRESH_TEST(LocalFree, FindsTheSpanFromItsLaterSlices) {
  start_heaps();
  constexpr usize kWide = 32 * 1024;
  const Blocks blocks = take_many(8, kWide);
  Span* span = span_of(blocks[0]);
  ASSERT_EQ(span->slices.get(), 8u);
  for (u32 i = 8; i-- > 0;) {
    EXPECT_EQ(span_of(blocks[i]), span);
    give(blocks[i]);
    EXPECT_EQ(t_heap->blocks[span->size_class.get()].get(), blocks[i]);
    EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
  }
  // Floating, and from the last slice: events come through the other path, too.
  const Blocks again = take_many(9, kWide);
  ASSERT_EQ(life_of(span), SpanLife::floating);
  give(again[7]);
  EXPECT_EQ(life_of(span), SpanLife::reusable) << "one of eight is the threshold";
  EXPECT_EQ(check_everything(), 0u);
}

// --- The chain. ---

FRESH_TEST(RemoteFree, HoldsBackFourKibibytesAtMost) {
  constexpr usize kSmall = 256;
  start_heaps();
  Blocks blocks;
  Worker other;
  other.run([&] { blocks = take_many(kMaxChain + 1, kSmall); });
  Span* span = span_of(blocks[0]);
  give_many(blocks, 0, kMaxChain - 1);
  EXPECT_EQ(held_back(t_heap), kMaxChain - 1);
  EXPECT_EQ(chain_of(t_heap, span).span.get(), span);
  EXPECT_EQ(remote_count(span), 0u) << "no atomic so far";
  give(blocks[kMaxChain - 1]);
  EXPECT_EQ(remote_count(span), kMaxChain);
  EXPECT_EQ(held_back(t_heap), 0u);
  give(blocks[kMaxChain]);
  EXPECT_EQ(held_back(t_heap), 1u);
  close_chains(t_heap);
  EXPECT_EQ(remote_count(span), kMaxChain + 1);
  EXPECT_EQ(chain_of(t_heap, span).span.get(), nullptr);
  EXPECT_EQ(check_everything(), 0u);
  // The owner gets each once.
  other.run([&] {
    u32 count = 0;
    const Block* list = take_remote(span, &count);
    EXPECT_EQ(count, kMaxChain + 1);
    EXPECT_EQ(list, blocks[kMaxChain]);
    list = next_of(list);
    for (u32 i = kMaxChain; i-- > 0; list = next_of(list)) EXPECT_EQ(list, blocks[i]);
    EXPECT_EQ(list, nullptr);
  });
}

// A heap that seems to be in a fast path cannot be had.
FRESH_TEST(RemoteFree, EndsOutside) {
  start_heaps();
  Blocks blocks;
  Worker other;
  other.run([&] { blocks = take_many(kMaxChain + 2, 256); });
  for (void* block : blocks) {
    give(block);
    EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
  }
  EXPECT_EQ(held_back(t_heap), 2u);
}

FRESH_TEST(RemoteFree, HoldsBackFewOfLargerBlocks) {
  start_heaps();
  const struct {
    usize size;
    u32 limit;
  } cases[] = {{kSize, 5}, {2048, 3}, {8192, 1}, {32 * 1024, 1}};
  Worker other;
  for (const auto& one : cases) {
    Blocks blocks;
    other.run([&] { blocks = take_many(one.limit + 1, one.size); });
    give_many(blocks, 0, one.limit - 1);
    EXPECT_EQ(remote_count(span_of(blocks[0])), 0u) << one.size;
    give(blocks[one.limit - 1]);
    EXPECT_EQ(remote_count(span_of(blocks[0])), one.limit) << one.size;
    EXPECT_EQ(held_back(t_heap), 0u);
  }
}

// From a later slice of the span, and with a size, as from the first slice and without: no atomic.
FRESH_TEST(RemoteFree, FindsTheChainFromLaterSlicesAndWithASize) {
  start_heaps();
  constexpr usize kWide = 1280;  // four on a chain
  Blocks blocks;
  Worker other;
  other.run([&] { blocks = take_many(4 * kSliceBytes / kWide, kWide); });
  Span* span = span_of(blocks[0]);
  ASSERT_GT(span->slices.get(), 1u);
  const auto in_slice = [&](u32 slice, u32 nth) {
    for (void* block : blocks) {
      if (slice_record(&g_arenas.arenas[0], reinterpret_cast<uptr>(block)) == span + slice && nth-- == 0) return block;
    }
    return blocks[0];
  };
  give(in_slice(1, 0));
  EXPECT_EQ(chain_of(t_heap, span).span.get(), span);
  EXPECT_EQ(held_back(t_heap), 1u);
  give(in_slice(1, 1));
  EXPECT_EQ(held_back(t_heap), 2u);
  deallocate_as<Claim::size>(in_slice(0, 1), kWide);
  EXPECT_EQ(held_back(t_heap), 3u);
  EXPECT_EQ(remote_count(span), 0u);
  EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
  deallocate_as<Claim::size>(in_slice(1, 2), kWide);
  EXPECT_EQ(held_back(t_heap), 0u);
  EXPECT_EQ(remote_count(span), 4u);
  EXPECT_EQ(check_everything(), 0u);
}

// They may be the thread's last frees for long.
FRESH_TEST(RemoteFree, TheOnesThatEmptyASharedSpanAreNotHeldBack) {
  start_heaps();
  Blocks blocks;
  {
    Worker other;
    other.run([&] {
      blocks = take_many(128, 256);
      empty_own_heap();
    });
  }
  give_now(blocks, 0, 126);
  give(blocks[126]);
  EXPECT_EQ(held_back(t_heap), 1u);
  give(blocks[127]);
  EXPECT_EQ(span_of(blocks[0]), nullptr);
  EXPECT_EQ(held_bytes(), 0u);
}

// More spans of another thread than there are chains: some have one place.
struct Crowd {
  static constexpr u32 kSpans = 2 * kChains;
  Worker other;
  std::vector<Blocks> spans;
  Crowd() {
    own_heap();
    other.run([&] {
      for (u32 i = 0; i < kSpans; ++i) spans.push_back(take_many(kCapacity));
    });
  }
  Span* span(u32 i) const { return span_of(spans[i][0]); }
  const Chain& place(u32 i) const { return chain_of(t_heap, span(i)); }
  // The first other span from `from` on that has the same place, or another one.
  u32 find(u32 of, bool same, u32 from = 0) const {
    while (from < kSpans && (from == of || (&place(from) == &place(of)) != same)) ++from;
    return from;
  }
};

FRESH_TEST(RemoteFree, ASecondSpanOfTheSamePlaceClosesTheChain) {
  start_heaps();
  const Crowd crowd;
  u32 first = 0;
  while (first < Crowd::kSpans && crowd.find(first, true) == Crowd::kSpans) ++first;
  ASSERT_LT(first, Crowd::kSpans) << "there are more than places";
  const u32 second = crowd.find(first, true), apart = crowd.find(first, false);
  ASSERT_LT(apart, Crowd::kSpans);
  give_many(crowd.spans[first], 0, 2);
  give(crowd.spans[apart][0]);
  EXPECT_EQ(remote_count(crowd.span(first)), 0u) << "each has a place";
  EXPECT_EQ(held_back(t_heap), 3u);
  give(crowd.spans[second][0]);
  EXPECT_EQ(remote_count(crowd.span(first)), 2u);
  EXPECT_EQ(remote_count(crowd.span(second)), 0u);
  EXPECT_EQ(remote_count(crowd.span(apart)), 0u);
  EXPECT_EQ(crowd.place(second).span.get(), crowd.span(second));
  EXPECT_EQ(held_back(t_heap), 2u);
  give(crowd.spans[first][2]);
  EXPECT_EQ(remote_count(crowd.span(second)), 1u) << "and back";
  EXPECT_EQ(held_back(t_heap), 2u);
  close_chains(t_heap);
  EXPECT_EQ(remote_count(crowd.span(first)), 3u);
  EXPECT_EQ(remote_count(crowd.span(second)), 1u);
  EXPECT_EQ(remote_count(crowd.span(apart)), 1u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(RemoteFree, OfMoreSpansThanThereArePlacesEachGetsItsBlock) {
  start_heaps();
  const Crowd crowd;
  std::set<const Chain*> places;
  for (u32 i = 0; i < Crowd::kSpans; ++i) {
    give(crowd.spans[i][0]);
    ASSERT_EQ(crowd.place(i).span.get(), crowd.span(i));
    places.insert(&crowd.place(i));
  }
  EXPECT_EQ(held_back(t_heap), places.size());
  EXPECT_GT(places.size(), kChains / 2) << "spans are spread";
  close_chains(t_heap);
  EXPECT_EQ(held_back(t_heap), 0u);
  for (u32 i = 0; i < Crowd::kSpans; ++i) EXPECT_EQ(remote_count(crowd.span(i)), 1u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(RemoteFree, AThreadThatOnlyFreesGetsAHeap) {
  start_heaps();
  const Blocks blocks = take_many(3);
  Worker other;
  other.run([&] {
    EXPECT_EQ(t_heap, &g_null_heap);
    give(blocks[0]);
    EXPECT_NE(t_heap, &g_null_heap);
    EXPECT_EQ(held_back(t_heap), 1u);
  });
  other.end();
  EXPECT_EQ(remote_count(span_of(blocks[0])), 1u) << "closed at the thread's end";
}

FRESH_TEST(RemoteFree, WithoutAHeapGoesAtOnce) {
  start_heaps();
  const Blocks blocks = take_many(3);
  exhaust_kernel();
  const auto threads = fill_heap_records();
  Worker other;
  other.run([&] {
    give(blocks[1]);
    EXPECT_EQ(t_heap, &g_null_heap);
    EXPECT_EQ(held_back(&g_null_heap), 0u);
    EXPECT_EQ(g_null_heap.inside.load(relaxed), kOutside);
  });
  EXPECT_EQ(remote_count(span_of(blocks[0])), 1u);
}

// --- Mail. ---

FRESH_TEST(RemoteFree, AtTheThresholdMailsTheSpanToItsOwner) {
  start_heaps();
  const Blocks blocks = take_many(2 * kCapacity + 1);
  Span* first = span_of(blocks[0]);
  Span* second = span_of(blocks[kCapacity]);
  Worker other;
  other.run([&] {
    for (u32 i = 0; i < kThreshold - 1; ++i) give_now({blocks[i]});
    EXPECT_EQ(life_of(first), SpanLife::floating);
    give_now({blocks[kThreshold - 1]});
    EXPECT_EQ(state_of(first), SpanState::claimed);
    // By a chain that passes the threshold.
    give_now(blocks, kCapacity, kCapacity + 10);
    EXPECT_EQ(state_of(second), SpanState::claimed);
    // After that pushes go on as before, and mail nothing again.
    give_now(blocks, kThreshold, 2 * kThreshold);
  });
  EXPECT_EQ(mail_first(t_heap->mailbox.load(relaxed)), span_number(second));
  EXPECT_EQ(second->mail_next.load(relaxed), span_number(first));
  EXPECT_EQ(first->mail_next.load(relaxed), 0u);
  // Local frees of a claimed span are no reason to do anything.
  give_many(blocks, 2 * kThreshold, 4 * kThreshold);
  EXPECT_EQ(state_of(first), SpanState::claimed);
  EXPECT_EQ(check_everything(), 0u);
  take_mail(t_heap);
  EXPECT_EQ(t_heap->mailbox.load(relaxed), 0u);
  EXPECT_TRUE(floating_of(t_heap).empty());
  EXPECT_EQ(reusable_of(t_heap), (std::vector<Span*>{first, second}));
  EXPECT_EQ(t_heap->slack.get(), (4 * kThreshold + 10) * kSize);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(RemoteFree, OfAllBlocksEndsTheSpanWithTheMail) {
  start_tight(0);
  const Blocks blocks = take_many(kCapacity + 1);
  Worker other;
  {
    const Stopped stopped(t_heap, kInSlowPath);
    other.run([&] { give_now(blocks, 0, kCapacity); });
  }
  EXPECT_EQ(held_bytes(), 2 * kSliceBytes);
  take_mail(t_heap);
  EXPECT_EQ(held_bytes(), kSliceBytes);
  EXPECT_EQ(span_of(blocks[0]), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

// --- Other pointers. ---

FRESH_TEST(Free, OfNullIsNothing) {
  give(nullptr);
  EXPECT_EQ(g_null_heap.inside.load(relaxed), kOutside);
  start_heaps();
  take();
  give(nullptr);
  EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
}

FRESH_TEST(Free, FindsBlocksOfLaterArenas) {
  start_tight(0, usize{8} << 20);
  Blocks blocks;
  for (u32 i = 0; i < 500; ++i) blocks.push_back(take(20 * 1024));
  ASSERT_GT(g_arenas.count.load(relaxed), 1u);
  give_many(blocks);
  EXPECT_EQ(t_heap->inside.load(relaxed), kOutside);
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_LT(held_bytes(), usize{1} << 20) << "but for the hot span and the slack";
}

}  // namespace
}  // namespace coffer
