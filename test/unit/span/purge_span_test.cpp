// SPDX-License-Identifier: MIT
#include "span/purge_span.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "fresh.hpp"
#include "ground.hpp"
#include "observe/counters.hpp"
#include "os/fake/fake.hpp"
#include "os/probe.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "span/choices.hpp"
#include "span/colour.hpp"
#include "support/random.hpp"

namespace coffer {
namespace {

namespace fake = os::fake;
using test::cut_page;
using test::start_ground;

constexpr u64 kSecond = 1'000'000'000;

SpanState state_of(const Span* span) { return load_word(span, relaxed).state(); }
u32 page_of(const Span* span, const Block* block) {
  return static_cast<u32>((reinterpret_cast<uptr>(block) - span_start(span)) / kCarvePage);
}
bool page_resident(const Span* span, u32 page) {
  return test::resident_pages(reinterpret_cast<void*>(span_start(span) + page * kCarvePage), kCarvePage) != 0;
}

void list(Span* span) {
  ASSERT_TRUE(insert_listed(span));
  look_at_oldest();
}

// A span whose blocks are all live and written to, and nobody's: shared, as its owner would leave it.
struct Shared {
  Span* span;
  std::vector<bool> live;

  explicit Shared(ClassIndex size_class, u32 pages_to_cut = 64) {
    span = make_span(size_class, nullptr);
    bool zero = false;
    for (u32 i = 0; i < pages_to_cut && cut_page(span, &zero) != nullptr; ++i) {
    }
    live.resize(span->capacity.get());
    for (u32 i = 0; i < span->capacity.get(); ++i) {
      live[i] = ((span->absent.get() >> page_of(span, block_at(span, i))) & 1) == 0;
      if (live[i]) std::memset(static_cast<void*>(block_at(span, i)), mark(i), span->block_bytes.get());
    }
    EXPECT_TRUE(claim(span));
    const ShareResult result = mark_shared(span);
    EXPECT_NE(result, ShareResult::empty);
    if (result == ShareResult::listed) list(span);
  }

  static int mark(u32 block) { return static_cast<int>(block % 251) + 1; }

  void free(u32 block) {
    live[block] = false;
    if (push_remote(span, block_at(span, block), block_at(span, block), 1) == PushDuty::list) list(span);
  }

  // What is known of the span agrees with what is live, and nobody's content changed.
  void check() const {
    u32 live_blocks = 0;
    for (u32 i = 0; i < live.size(); ++i) {
      if (!live[i]) continue;
      ++live_blocks;
      ASSERT_TRUE(test::all_bytes(block_at(span, i), span->block_bytes.get(), mark(i))) << "block " << i;
    }
    const RemoteWord word = load_word(span, relaxed);
    ASSERT_EQ(word.count(), live.size() - live_blocks);
    u32 absent = 0, listed = 0;
    for_each_page(span, span->absent.get(), [&](u32, u32 from, u32 to) { absent += to - from; });
    ASSERT_EQ(absent, absent_count(span));
    for (const Block* block = span->local_free.get(); block != nullptr; block = next_of(block)) {
      ASSERT_TRUE(is_block_start(span, reinterpret_cast<uptr>(block)));
      ASSERT_EQ((span->absent.get() >> page_of(span, block)) & 1, 0u) << "a block of an absent page is on the list";
      ++listed;
    }
    ASSERT_EQ(listed, local_count(span));
  }
};

void start() {
  start_ground();
  fake::set_clock(kSecond);
}

FRESH_TEST(PurgeSpan, GivesBackThePagesWithoutALiveBlock) {
  start();
  Shared shared(3);  // 64 bytes, 64 blocks a page
  for (u32 i = 64; i < 192; ++i) shared.free(i);
  ASSERT_EQ(state_of(shared.span), SpanState::listed);
  shared.free(200);
  EXPECT_EQ(purge_waiting_spans(0, 1), 2 * kCarvePage);
  EXPECT_EQ(shared.span->absent.get(), 0b110u);
  EXPECT_FALSE(page_resident(shared.span, 1));
  EXPECT_FALSE(page_resident(shared.span, 2));
  EXPECT_TRUE(page_resident(shared.span, 3));
  EXPECT_EQ(unbacked_bytes(shared.span), 2 * kCarvePage);
  EXPECT_EQ(state_of(shared.span), SpanState::listed);
  EXPECT_TRUE(PartialPool::is_linked(shared.span));
  shared.check();
  EXPECT_EQ(purge_waiting_spans(0, 9), 0u) << "it was looked at";
  EXPECT_EQ(purge_all_spans(), 0u) << "there is nothing more";
  shared.check();
}

// The next owner carves them again, in address order, and knows them to be zero.
FRESH_TEST(PurgeSpan, WhatWentIsCutAgain) {
  start();
  Shared shared(3);
  for (u32 i = 0; i < 64; ++i) shared.free(i);
  for (u32 i = 256; i < 320; ++i) shared.free(i);
  shared.free(100);
  EXPECT_EQ(purge_all_spans(), 2 * kCarvePage);
  Span* span = g_partial_pool.adopt(3, 0, [](Span* one) { return mark_adopted(one, nullptr); });
  ASSERT_EQ(span, shared.span);
  EXPECT_EQ(local_count(span), 1u);
  for (const u32 page : {0u, 4u}) {
    bool zero = false;
    const Block* block = cut_page(span, &zero);
    EXPECT_EQ(page_of(span, block), page);
    EXPECT_TRUE(zero);
    u32 count = 0;
    for (; block != nullptr; block = next_of(block)) ++count;
    EXPECT_EQ(count, 64u);
  }
  bool zero = false;
  EXPECT_EQ(cut_page(span, &zero), nullptr);
  EXPECT_EQ(span->carved.get(), span->capacity.get());
}

// A block that reaches over a page's end keeps both pages; one that starts before an idle page and ends in it stays on
// the list, and what is carved anew may end in a page that is not zero.
FRESH_TEST(PurgeSpan, BlocksOverTwoPages) {
  start();
  const ClassIndex size_class = class_of(48);
  Shared shared(size_class);
  // Blocks 0..85 start in page 0, 85 ends in page 1; 86..170 start in page 1, 170 ends in page 2.
  for (u32 i = 85; i <= 170; ++i) shared.free(i);
  EXPECT_EQ(purge_all_spans(), kCarvePage);
  EXPECT_EQ(shared.span->absent.get(), 0b10u);
  EXPECT_EQ(local_count(shared.span), 1u) << "block 85";
  EXPECT_EQ(absent_are(shared.span), AbsentPages::unknown);
  shared.check();

  Shared kept(size_class);
  for (u32 i = 86; i <= 170; ++i) kept.free(i);
  EXPECT_EQ(purge_all_spans(), 0u) << "block 85 reaches into it";
  kept.check();
}

FRESH_TEST(PurgeSpan, BlocksOfSeveralPages) {
  start();
  const ClassIndex size_class = aligned_class(16384, 16384);
  Shared shared(size_class);
  ASSERT_EQ(shared.span->capacity.get(), 8u);
  shared.free(2);
  shared.free(3);
  EXPECT_EQ(purge_all_spans(), 8 * kCarvePage);
  EXPECT_EQ(shared.span->absent.get() & 0xffff, 0xff00u);
  EXPECT_EQ(unbacked_bytes(shared.span), 8 * kCarvePage);
  shared.check();
  // The rest: only what never was anybody's stays clean.
  const usize dirty = counters().dirty.load(relaxed);
  for (const u32 i : {0u, 1u, 4u, 5u, 6u}) shared.free(i);
  EXPECT_EQ(push_remote(shared.span, block_at(shared.span, 7), block_at(shared.span, 7), 1), PushDuty::take_off);
  ASSERT_TRUE(g_partial_pool.remove(shared.span));
  end_span(shared.span);
  EXPECT_EQ(counters().dirty.load(relaxed) - dirty, 3 * kSliceBytes) << "slice 1 was purged whole";
}

// The pages in which no block starts hold the last one's content, too, though they were never carved.
FRESH_TEST(PurgeSpan, TheLastBlockOfSeveralPagesGoesWhole) {
  start();
  g_span_choices.flat.set(1);
  Shared shared(class_of(32 * 1024), 5);
  ASSERT_EQ(shared.span->capacity.get(), 8u);
  shared.free(4);
  EXPECT_EQ(purge_all_spans(), 8 * kCarvePage);
  for (u32 page = 32; page < 64; ++page) EXPECT_FALSE(page_resident(shared.span, page)) << page;
  EXPECT_EQ(unbacked_bytes(shared.span), 32 * kCarvePage);
  shared.check();
  // What is carved again there is as zero as it is said to be.
  ASSERT_NE(shared.span, nullptr);
  bool zero = false;
  const Block* block = cut_page(shared.span, &zero);
  ASSERT_EQ(block, block_at(shared.span, 4));
  EXPECT_TRUE(zero);
  const char* content = reinterpret_cast<const char*>(block) + sizeof(Block);
  EXPECT_TRUE(test::all_bytes(content, 32 * 1024 - sizeof(Block), 0));
}

// What the kernel does not take is free all the same, and not known to be zero.
FRESH_TEST(PurgeSpan, RefusedPagesStayAndCount) {
  start();
  Shared shared(3);
  for (u32 i = 0; i < 512; ++i) {
    if (i / 64 != 5) shared.free(i);
  }
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kPurge;
  faults.duration = fake::Duration::from_then_on;
  fake::set_faults(faults);
  EXPECT_EQ(purge_all_spans(), 0u);
  EXPECT_EQ(fake::failed_calls(), 2u);
  fake::stop_faults();
  EXPECT_EQ(absent_are(shared.span), AbsentPages::unknown);
  EXPECT_EQ(unbacked_bytes(shared.span), 0u);
  shared.check();
}

FRESH_TEST(PurgeSpan, TheOldestFirstAndOnlyOldOnes) {
  start();
  Shared first(3);
  for (u32 i = 0; i < 64; ++i) first.free(i);
  fake::set_clock(kSecond + 4 * kTickNs);
  Shared second(3);
  for (u32 i = 0; i < 64; ++i) second.free(i);
  EXPECT_EQ(g_partial_pool.waiting_bytes(), 2 * kCarvePage);
  EXPECT_EQ(purge_waiting_spans(5, 9), 0u);
  fake::set_clock(kSecond + 5 * kTickNs);
  EXPECT_EQ(purge_waiting_spans(5, 9), kCarvePage);
  EXPECT_EQ(first.span->absent.get(), 1u);
  EXPECT_EQ(second.span->absent.get(), 0u);
  EXPECT_EQ(g_partial_pool.waiting_bytes(), kCarvePage);
  EXPECT_EQ(purge_waiting_spans(0, 9), kCarvePage);
  EXPECT_EQ(g_partial_pool.waiting_bytes(), 0u);
}

// However many wait: at one waking of the reclaimer, by steps.
FRESH_TEST(PurgeSpan, AllThatAreOldEnoughGoAtOneWaking) {
  start();
  std::vector<std::unique_ptr<Shared>> shared;
  for (u32 i = 0; i < kSpansAStep + 9; ++i) {
    shared.push_back(std::make_unique<Shared>(3, 65));
    for (u32 block = 0; block < 64; ++block) shared.back()->free(block);
  }
  EXPECT_EQ(g_partial_pool.waiting_bytes(), shared.size() * kCarvePage);
  fake::set_clock(kSecond + (kWholeTick + 1) * kTickNs);
  EXPECT_FALSE(purge_spans_that_wait());
  EXPECT_EQ(g_partial_pool.waiting_bytes(), 0u);
  for (const auto& one : shared) ASSERT_EQ(one->span->absent.get() & 1, 1u);
}

// When much waits, each span that is listed has the oldest one looked at.
FRESH_TEST(PurgeSpan, WhoListsLooks) {
  start();
  Shared first(3), second(3);
  for (u32 i = 0; i < 64; ++i) first.free(i);
  test::changeable_options().free_limit = kCarvePage;
  fake::set_clock(9 * kSecond);
  for (u32 i = 0; i < 64; ++i) second.free(i);
  EXPECT_EQ(first.span->absent.get(), 1u);
  EXPECT_EQ(second.span->absent.get(), 0u) << "it is young";
}

void follow_the_model(bool flat, bool coloured) {
  start();
  test::changeable_options().placement = flat ? config::PlacementPolicy::flat : config::PlacementPolicy::index;
  test::changeable_options().colour = coloured;
  span_choices_start();
  colours_start();
  test::Random random(41);
  for (u32 round = 0; round < 200; ++round) {
    const ClassIndex size_class = static_cast<ClassIndex>(random.below(kClasses));
    Shared shared(size_class, 1 + static_cast<u32>(random.below(64)));
    std::vector<u32> live;
    for (u32 i = 0; i < shared.live.size(); ++i) {
      if (shared.live[i]) live.push_back(i);
    }
    // Runs of neighbours, all but one block in the end.
    while (live.size() > 1) {
      const usize at = random.below(live.size());
      const usize run = 1 + random.below(live.size() - 1 < 100 ? live.size() - 1 : 100);
      for (usize i = 0; i < run && live.size() > 1; ++i) {
        const usize which = at < live.size() ? at : live.size() - 1;
        shared.free(live[which]);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      }
      if (random.below(3) == 0) purge_all_spans();
      shared.check();
      ASSERT_FALSE(testing::Test::HasFailure()) << "class " << size_class << " round " << round;
      if (random.below(8) == 0) break;
    }
    const PushDuty last = [&] {
      PushDuty duty = PushDuty::none;
      for (const u32 i : live) {
        shared.live[i] = false;
        duty = push_remote(shared.span, block_at(shared.span, i), block_at(shared.span, i), 1);
        if (duty == PushDuty::list) list(shared.span);
      }
      return duty;
    }();
    if (last == PushDuty::take_off) {
      ASSERT_TRUE(g_partial_pool.remove(shared.span));
    }
    // Whoever gets these slices next finds zeros where zeros are said to be.
    const u32 slices = shared.span->slices.get();
    const u32 first = static_cast<u32>(shared.span - test::first_arena().spans);
    end_span(shared.span);
    for (u32 slice = first; slice < first + slices; ++slice) {
      const Chunk& chunk = test::first_arena().chunks[slice / kSlicesPerChunk];
      if ((chunk.dirty.load(relaxed) >> (slice % kSlicesPerChunk)) & 1) continue;
      const uptr start = test::first_arena().base + uptr{slice} * kSliceBytes;
      ASSERT_TRUE(test::all_bytes(reinterpret_cast<void*>(start), kSliceBytes, 0))
          << "class " << size_class << " slice " << slice - first << " round " << round;
    }
  }
  EXPECT_EQ(counters().held.load(relaxed), 0u);
}

FRESH_TEST(PurgeSpan, FollowsTheModelFlat) { follow_the_model(true, false); }
FRESH_TEST(PurgeSpan, FollowsTheModelFlatWithColours) { follow_the_model(true, true); }
FRESH_TEST(PurgeSpan, FollowsTheModelPlaced) { follow_the_model(false, false); }
FRESH_TEST(PurgeSpan, FollowsTheModelPlacedWithColours) { follow_the_model(false, true); }

}  // namespace
}  // namespace coffer
