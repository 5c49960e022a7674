// SPDX-License-Identifier: MIT
// Hot spans that their owner empties: when that is noticed, and what becomes of them.
#include "heap/hot.hpp"

#include <gtest/gtest.h>

#include "heap/heaps.hpp"
#include "support/random.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr u8 kMostPatience = 15;

u32 list_length(const Heap* heap, ClassIndex size_class = kClass) {
  u32 count = 0;
  for (const Block* block = heap->blocks[size_class].get(); block != nullptr; block = block->next) ++count;
  return count;
}
u32 patience_of(ClassIndex size_class = kClass) { return t_heap->patience[size_class].get(); }
u32 countdown_of(const Span* span) { return static_cast<u32>(span->countdown.get()); }

// --- Emptiness. ---

FRESH_TEST(Hot, TheFreeOfTheOnlyBlockEndsItsSpan) {
  start_heaps();
  void* block = take();
  give(block);
  EXPECT_EQ(span_of(block), nullptr);
  EXPECT_EQ(held_bytes(), 0u);
  EXPECT_EQ(held_by(t_heap), 0u);
  EXPECT_EQ(t_heap->hot[kClass].get(), nullptr);
  EXPECT_EQ(t_heap->blocks[kClass].get(), nullptr);
  EXPECT_EQ(t_heap->bracket.load(relaxed), nullptr);
  EXPECT_EQ(check_everything(), 0u);
}

// As many frees as blocks were live when the list was taken: none is looked at in vain.
FRESH_TEST(Hot, TheCountdownIsWhatWasLive) {
  start_heaps();
  Blocks blocks = take_many(3 * kBlocksPerPage);
  Span* span = span_of(blocks[0]);
  EXPECT_EQ(countdown_of(span), 2 * kBlocksPerPage) << "two pages when the third was cut";
  give_many(blocks, 0, 5);
  EXPECT_EQ(countdown_of(span), 3u);
  void* again = take();
  EXPECT_EQ(again, blocks[4]);
  EXPECT_EQ(countdown_of(span), 7u) << "seven were live when these five were taken";
  EXPECT_EQ(local_count(span), 0u);
  EXPECT_EQ(list_length(t_heap), 4u);
}

FRESH_TEST(Hot, CountsWhatOthersFreedAsLiveUntilItLooks) {
  start_heaps();
  const Blocks blocks = take_many(kBlocksPerPage);
  Span* span = span_of(blocks[0]);
  ASSERT_EQ(countdown_of(span), 1u);
  Worker other;
  other.run([&] { give_now(blocks, 1); });
  give(blocks[0]);
  EXPECT_EQ(span_of(blocks[0]), nullptr) << "the look sees both sides";
  EXPECT_EQ(held_bytes(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Hot, ASpanWithALiveBlockStays) {
  start_heaps();
  const Blocks blocks = take_many(kBlocksPerPage);
  Span* span = span_of(blocks[0]);
  for (u32 round = 0; round < 200; ++round) {
    void* block = take();
    ASSERT_EQ(span_of(block), span);
    give(block);
    ASSERT_EQ(state_of(span), SpanState::hot);
    ASSERT_EQ(t_heap->hot[kClass].get(), span);
  }
  EXPECT_EQ(check_everything(), 0u);
}

// Whatever the order: a span ends only without a live block, and few frees after the last one.
FRESH_TEST(Hot, RandomOrdersNeverEndASpanInUse) {
  start_heaps();
  test::Random random(11);
  Blocks live;
  u32 ended = 0;
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
      if (span_of(block) == nullptr) ++ended;
    }
    if (step % 64 == 0) {
      for (const void* block : live) ASSERT_NE(span_of(block), nullptr);
      ASSERT_EQ(check_everything(), 0u);
    }
  }
  EXPECT_GT(ended, 10u) << "the test has to see some";
  give_many(live);
}

// --- Patience. ---

FRESH_TEST(Hot, EachLookInVainDoublesTheWait) {
  start_heaps();
  take_many(2);
  void* moving = take();
  Span* span = span_of(moving);
  for (u32 looks = 0; looks < 18; ++looks) {
    // One local free short of the event, then the event.
    while (countdown_of(span) > 1) {
      give(moving);
      moving = take();
      if (local_count(span) == 0) set_countdown(span, 0, 1);  // a refill; the wait is not its matter here
    }
    ASSERT_EQ(patience_of(), looks < kMostPatience ? looks : kMostPatience);
    give(moving);
    const u32 wait = (1u << (looks < kMostPatience ? looks : kMostPatience)) - 1;
    EXPECT_EQ(countdown_of(span), wait > 2 ? wait : 2) << looks << " looks, with two blocks live";
    moving = take();
    set_countdown(span, local_count(span), 1);
  }
}

FRESH_TEST(Hot, ANewPageEndsThePatience) {
  start_heaps();
  take_many(2);
  give(take());
  EXPECT_EQ(patience_of(), 1u);
  take_many(kBlocksPerPage);
  EXPECT_EQ(patience_of(), 0u);
}

FRESH_TEST(Hot, WaitsForAllThatIsLiveIfThatIsMore) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity);
  Span* span = span_of(blocks[0]);
  set_countdown(span, 0, 1);
  give(blocks[0]);
  EXPECT_EQ(countdown_of(span), kCapacity - 1);
}

// --- Short lists. ---

FRESH_TEST(Hot, OfASpanThatIsMostlyFreeSomeBlocksAreTaken) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity);
  Span* span = span_of(blocks[0]);
  // Three live: 24 of 29 are taken.
  give_many(blocks, 3);
  ASSERT_EQ(local_count(span), 29u);
  EXPECT_EQ(patience_of(), 1u) << "one look in vain, with four live";
  EXPECT_EQ(take(), blocks[kCapacity - 1]);
  EXPECT_EQ(list_length(t_heap), 3 * kListPerLive - 1);
  EXPECT_EQ(local_count(span), 29 - 3 * kListPerLive);
  EXPECT_EQ(countdown_of(span), 3u);
  EXPECT_EQ(check_everything(), 0u);
  // None is lost, and none comes twice.
  Blocks again = take_many(28);
  again.push_back(blocks[kCapacity - 1]);
  std::sort(again.begin(), again.end());
  EXPECT_TRUE(std::equal(again.begin(), again.end(), blocks.begin() + 3));
  EXPECT_EQ(absent_count(span), 0u);
  EXPECT_EQ(t_heap->hot[kClass].get(), span);
}

FRESH_TEST(Hot, FromAnEmptySpanAsManyAsThePatienceSays) {
  start_heaps();
  for (const u32 patience : {0u, 3u, 4u, 5u}) {
    const Blocks blocks = take_many(kCapacity);
    Span* span = span_of(blocks[0]);
    set_countdown(span, 0, kNever);  // nobody looks meanwhile
    give_many(blocks);
    ASSERT_EQ(local_count(span), kCapacity);
    t_heap->patience[kClass].set(static_cast<u8>(patience));
    void* block = take();
    ASSERT_EQ(span_of(block), span);
    const u32 some = patience <= 3 ? 8 : (1u << patience) - 1;
    EXPECT_EQ(list_length(t_heap), some - 1);
    EXPECT_EQ(local_count(span), kCapacity - some);
    EXPECT_EQ(countdown_of(span), 1u);
    EXPECT_EQ(check_everything(), 0u);
    give(block);
    EXPECT_EQ(span_of(block), nullptr) << "the next free sees that it is empty";
    t_heap->comeback[kClass].set(0);
  }
}

// What lies on a list nobody can take from a heap that sleeps: where there are many, it is short.
FRESH_TEST(Hot, AmongManyAListHasTwoKilobytesAtMost) {
  start_heaps();
  const Blocks blocks = take_many(kCapacity);
  Span* span = span_of(blocks[0]);
  g_crowded.set(1);
  give_many(blocks, 16);
  EXPECT_EQ(take(), blocks[31]);
  EXPECT_EQ(list_length(t_heap), 1u);
  EXPECT_EQ(local_count(span), 14u);
  EXPECT_EQ(countdown_of(span), 16u);
  EXPECT_EQ(check_everything(), 0u);
  // Of what others freed, too.
  take();
  push_blocks(blocks, 0, 8);
  for (u32 i = 0; i < 14; ++i) EXPECT_EQ(span_of(take()), span);
  EXPECT_EQ(take(), blocks[7]);
  EXPECT_EQ(list_length(t_heap), 1u);
  EXPECT_EQ(local_count(span), 6u);
  EXPECT_EQ(remote_count(span), 0u);
  EXPECT_EQ(check_everything(), 0u);
  // Of larger blocks one at a time.
  const Blocks wide = take_many(8, 32 * 1024);
  give_many(wide, 0, 4);
  EXPECT_EQ(take(32 * 1024), wide[3]);
  EXPECT_EQ(t_heap->blocks[compute_class(32 * 1024)].get(), nullptr);
  EXPECT_EQ(local_count(span_of(wide[0])), 3u);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Hot, AmongManyTheRestOfACutPageWaitsOnTheSpansList) {
  start_heaps();
  own_heap();
  g_crowded.set(1);
  const Blocks blocks = take_many(1);
  Span* span = span_of(blocks[0]);
  EXPECT_EQ(span->cut.get(), kBlocksPerPage);
  EXPECT_EQ(list_length(t_heap), 1u);
  EXPECT_EQ(local_count(span), 2u);
  EXPECT_EQ(countdown_of(span), 1u);
  EXPECT_EQ(check_everything(), 0u);
  for (u32 i = 1; i < kCapacity; ++i) EXPECT_EQ(take(), static_cast<char*>(blocks[0]) + i * kSize) << "in order";
  EXPECT_EQ(local_count(span), 0u);
  EXPECT_EQ(span->cut.get(), kCapacity);
  EXPECT_EQ(check_everything(), 0u);
}

// To see whether a span is empty again the heap's list is walked.
FRESH_TEST(Hot, OfANewSpanEightBlocksAreTakenAtFirst) {
  start_heaps();
  Blocks blocks = take_many(1, 64);
  Span* span = span_of(blocks[0]);
  EXPECT_EQ(span->cut.get(), 64u);
  EXPECT_EQ(local_count(span), 56u);
  EXPECT_EQ(check_everything(), 0u);
  for (u32 i = 1; i < 9; ++i) EXPECT_EQ(take(64), static_cast<char*>(blocks[0]) + i * 64) << "in order";
  EXPECT_EQ(local_count(span), 0u) << "now eight for each that is live";
  for (u32 i = 9; i < 65; ++i) EXPECT_EQ(take(64), static_cast<char*>(blocks[0]) + i * 64);
  EXPECT_EQ(span->cut.get(), 128u);
  EXPECT_EQ(local_count(span), 0u) << "the next pages whole";
  EXPECT_EQ(check_everything(), 0u);
}

// --- Coming back. ---

FRESH_TEST(Hot, AClassThatComesBackKeepsItsEmptySpan) {
  start_heaps();
  void* block = take();
  give(block);
  ASSERT_EQ(held_bytes(), 0u);
  EXPECT_FALSE(comes_back(t_heap, kClass));
  block = take();
  EXPECT_TRUE(comes_back(t_heap, kClass));
  Span* span = span_of(block);
  give(block);
  EXPECT_EQ(state_of(span), SpanState::reusable);
  EXPECT_EQ(reusable_of(t_heap), std::vector<Span*>{span});
  EXPECT_EQ(t_heap->slack.get(), kSlotBytes);
  EXPECT_EQ(claim_at_of(span), kNoClaim);
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_EQ(span_of(take()), span);
  EXPECT_EQ(t_heap->comeback[kClass].get(), 3u);
  EXPECT_EQ(t_heap->slack.get(), 0u);
}

FRESH_TEST(Hot, WithoutSlackItEndsAllTheSame) {
  start_heaps(0);
  for (u32 i = 0; i < 3; ++i) {
    void* block = take();
    give(block);
    EXPECT_EQ(span_of(block), nullptr) << i;
    EXPECT_EQ(held_bytes(), 0u);
  }
}

FRESH_TEST(Hot, AClassThatIsNeverGivenUpDoesNotComeBack) {
  start_heaps();
  take_many(4 * kCapacity);
  EXPECT_EQ(t_heap->comeback[kClass].get(), 0u);
  EXPECT_FALSE(comes_back(t_heap, kClass));
}

// --- Relaxed classes. ---

// A loop of malloc and free, `rounds` times over `count` blocks.
void loop(u32 rounds, u32 count = 1, usize size = kSize) {
  for (u32 i = 0; i < rounds; ++i) give_many(take_many(count, size));
}

FRESH_TEST(Relaxed, AfterAFewRoundsAPageStaysHot) {
  start_heaps();
  for (u32 round = 1; round <= 4; ++round) {
    loop(1);
    ASSERT_EQ(t_heap->relaxed_class[kClass].get(), round < 4 ? 0u : 1u) << round;
  }
  void* block = take();
  Span* span = span_of(block);
  EXPECT_EQ(t_heap->hot[kClass].get(), span);
  give(block);
  const u64 word = span->remote.load(relaxed);
  loop(1000);
  EXPECT_EQ(span->remote.load(relaxed), word) << "nothing more is done about it";
  EXPECT_EQ(t_heap->hot[kClass].get(), span);
  EXPECT_GT(countdown_of(span), 1u << 20);
  EXPECT_EQ(t_heap->relaxed_bytes.get(), 0u) << "a page is free of charge";
  EXPECT_EQ(held_bytes(), kSlotBytes);
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Relaxed, EndsWhenTheClassGrows) {
  start_heaps();
  loop(10);
  ASSERT_EQ(t_heap->relaxed_class[kClass].get(), 1u);
  const Blocks blocks = take_many(kBlocksPerPage + 1);
  Span* span = span_of(blocks[0]);
  EXPECT_EQ(t_heap->relaxed_class[kClass].get(), 0u);
  EXPECT_EQ(countdown_of(span), kBlocksPerPage) << "it is watched again";
  give_many(blocks);
  take();
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Relaxed, OfMoreThanAPageAreOnlyAFew) {
  start_heaps(usize{1} << 20);
  // Two pages each: 32 spans of different classes would be 256 KiB, and 64 may be.
  u32 relaxed_classes = 0;
  usize bytes = 0;
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const usize size = kFlatLayout[c].block_bytes;
    if (size < 512 || kFlatLayout[c].capacity < 4) continue;
    const u32 count = static_cast<u32>(kCarvePage / size + 1);
    loop(400, count, size);
    if (t_heap->relaxed_class[c].get() > 1) {
      ++relaxed_classes;
      bytes += t_heap->relaxed_class[c].get() * kCarvePage;
    }
    ASSERT_LE(t_heap->relaxed_bytes.get(), 64u * 1024);
  }
  EXPECT_GT(relaxed_classes, 2u);
  EXPECT_EQ(t_heap->relaxed_bytes.get(), bytes);
  EXPECT_EQ(check_everything(), 0u);
  // What is put down is not relaxed any more.
  release_idle(t_heap);
  EXPECT_EQ(t_heap->relaxed_bytes.get(), 0u);
  EXPECT_EQ(held_bytes(), 0u);
}

FRESH_TEST(Relaxed, EndsWithTheSpanThatWasTaken) {
  start_heaps();
  loop(10);
  ASSERT_EQ(t_heap->relaxed_class[kClass].get(), 1u);
  Span* span = t_heap->hot[kClass].get();
  ASSERT_TRUE(claim(span, SpanState::hot));
  do_duty(&g_null_heap, span, PushDuty::claimed);
  rob_heaps();
  ASSERT_TRUE(settle_unsettled());
  const Blocks blocks = take_many(kBlocksPerPage + 1);
  EXPECT_NE(t_heap->hot[kClass].get(), nullptr);
  EXPECT_EQ(t_heap->relaxed_class[kClass].get(), 0u);
  EXPECT_EQ(check_everything(), 0u);
}

// --- The list goes back. ---

FRESH_TEST(Hot, AnEventWhileItIsClaimedIsNone) {
  start_heaps();
  const Blocks blocks = take_many(kBlocksPerPage);
  Span* span = span_of(blocks[0]);
  ASSERT_TRUE(claim(span, SpanState::hot));
  do_duty(&g_null_heap, span, PushDuty::claimed);
  give_many(blocks);
  EXPECT_EQ(state_of(span), SpanState::claimed);
  EXPECT_EQ(local_count(span), kBlocksPerPage);
  EXPECT_EQ(check_everything(), 0u);
  take_mail(t_heap);
  EXPECT_EQ(state_of(span), SpanState::hot);
  EXPECT_EQ(take(), blocks.back()) << "it goes on";
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
