// SPDX-License-Identifier: MIT
// Mixed spans for themselves: conversion, blocks from holes, misuse, and threads that free while a span is converted.
#include "mixed/mixed.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "fresh.hpp"
#include "ground.hpp"
#include "heap/heap.hpp"
#include "observe/counters.hpp"
#include "os/fake/fake.hpp"
#include "os/probe.hpp"
#include "policy/mixing.hpp"
#include "span/choices.hpp"
#include "span/purge_span.hpp"
#include "worker.hpp"

namespace coffer {
namespace {

using test::cut_page;
using test::start_ground;
using Fault = MixedPool::Fault;

struct Carving {
  Span* span;
  std::vector<Block*> blocks;
};

// A span of the class in state hot, `pages` pages of it carved.
Carving carve_span(ClassIndex size_class, u32 pages = ~0u) {
  Carving carved{make_span(size_class, nullptr), {}};
  bool zero = false;
  for (u32 i = 0; i < pages; ++i) {
    Block* list = cut_page(carved.span, &zero);
    if (list == nullptr) break;
    for (; list != nullptr; list = next_of(list)) carved.blocks.push_back(list);
  }
  return carved;
}

void free_local(Span* span, Block* block) { test::push_own(span, block); }

void fill(void* block, usize bytes) {
  memset(block, static_cast<int>(reinterpret_cast<uptr>(block) >> 4) & 0xff, bytes);
}
bool is_filled(const void* block, usize bytes) {
  const auto* at = static_cast<const unsigned char*>(block);
  for (usize i = 0; i < bytes; ++i) {
    if (at[i] != ((reinterpret_cast<uptr>(block) >> 4) & 0xff)) return false;
  }
  return true;
}

bool convert(Span* span) {
  EXPECT_TRUE(claim(span));
  return g_mixed_pool.convert(span);
}

usize held() { return counters().held.load(relaxed); }

FRESH_TEST(Mixed, ConversionKeepsEverySurvivor) {
  start_ground();
  std::mt19937 random(1);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    for (const u32 pages : {1u, 3u, ~0u}) {
      const auto [span, blocks] = carve_span(c, pages);
      const usize bytes = span->block_bytes.get();
      std::vector<Block*> live;
      for (Block* block : blocks) {
        switch (random() % 8) {
          case 0:
            fill(block, bytes);
            live.push_back(block);
            break;
          case 1:
            ASSERT_EQ(push_remote(span, block, block, 1) == PushDuty::double_free, false);
            break;
          default:
            free_local(span, block);
        }
      }
      if (live.empty()) continue;
      // Remote pushes may have claimed it already.
      ASSERT_TRUE(load_word(span, relaxed).state() == SpanState::claimed || claim(span));
      ASSERT_TRUE(g_mixed_pool.convert(span)) << "class " << c;
      ASSERT_EQ(g_mixed_pool.check(span), Fault::none);
      ASSERT_EQ(MixedPool::live_bytes(span), live.size() * bytes);
      usize next = 0;
      for (Block* block : blocks) {
        const bool lives = next < live.size() && block == live[next];
        ASSERT_EQ(g_mixed_pool.size_of(span, block), lives ? bytes : 0);
        if (lives) ++next;
      }
      // Holes are used by another size, and nobody's bytes change.
      std::vector<Block*> others;
      while (Block* list = g_mixed_pool.take(48, 100)) {
        for (; list != nullptr; list = next_of(list)) others.push_back(list);
      }
      for (Block* block : others) fill(block, 48);
      for (Block* block : live) ASSERT_TRUE(is_filled(block, bytes));
      for (Block* block : others) ASSERT_TRUE(is_filled(block, 48));
      ASSERT_EQ(g_mixed_pool.check(span), Fault::none);
      const usize before = held();
      const usize slices = span->slices.get();
      for (Block* block : others) ASSERT_TRUE(g_mixed_pool.release(span, block));
      for (Block* block : live) ASSERT_TRUE(g_mixed_pool.release(span, block));
      ASSERT_EQ(span->use.load(relaxed), SliceUse::none);
      ASSERT_EQ(held(), before - slices * kSliceBytes);
      ASSERT_EQ(counters().mixed.load(relaxed), 0u);
    }
  }
}

FRESH_TEST(Mixed, ServesAndFreesAsAModelSays) {
  start_ground();
  std::mt19937 random(2);
  std::map<uptr, usize> live;
  std::vector<uptr> order;
  for (int step = 0; step < 60'000; ++step) {
    const bool grow = (step / 10'000) % 2 == 0;
    if (order.empty() || random() % 8 < (grow ? 5u : 3u)) {
      const u32 bytes = 16 * (1 + static_cast<u32>(random() % (random() % 8 == 0 ? 1024 : 32)));
      Block* block = g_mixed_pool.take(bytes, 1);
      if (block == nullptr) block = g_mixed_pool.make(bytes, 1u << random() % 4);
      ASSERT_NE(block, nullptr);
      const uptr at = reinterpret_cast<uptr>(block);
      ASSERT_EQ(at % (bytes % 64 == 0 ? 64 : 16), 0u);
      const auto after = live.lower_bound(at);
      ASSERT_TRUE(after == live.end() || at + bytes <= after->first);
      ASSERT_TRUE(after == live.begin() || std::prev(after)->first + std::prev(after)->second <= at);
      fill(block, bytes);
      live[at] = bytes;
      order.push_back(at);
      continue;
    }
    const usize i = random() % order.size();
    void* block = reinterpret_cast<void*>(order[i]);
    Span* span = first_record(slice_record(&g_arenas.arenas[0], order[i]));
    usize& bytes = live[order[i]];
    ASSERT_EQ(g_mixed_pool.size_of(span, block), bytes);
    ASSERT_TRUE(is_filled(block, bytes));
    if (random() % 4 == 0) {
      const usize wanted = 16 * (1 + random() % 64);
      if (g_mixed_pool.resize(span, block, wanted)) {
        const auto after = live.upper_bound(order[i]);
        ASSERT_TRUE(after == live.end() || order[i] + wanted <= after->first);
        bytes = wanted;
        fill(block, bytes);
      } else {
        ASSERT_GT(wanted, bytes);
      }
      continue;
    }
    ASSERT_TRUE(g_mixed_pool.release(span, block));
    live.erase(order[i]);
    order[i] = order.back();
    order.pop_back();
    ASSERT_TRUE(!is_mixed(span) || g_mixed_pool.check(span) == Fault::none);
  }
  for (const uptr at : order) {
    ASSERT_TRUE(g_mixed_pool.release(first_record(slice_record(&g_arenas.arenas[0], at)), reinterpret_cast<void*>(at)));
  }
  EXPECT_EQ(held(), 0u);
}

FRESH_TEST(Mixed, RefusesWhatIsNoBlock) {
  start_ground();
  auto* block = reinterpret_cast<char*>(g_mixed_pool.make(160, 2));
  Span* span = first_record(slice_record(&g_arenas.arenas[0], reinterpret_cast<uptr>(block)));
  Block* other = g_mixed_pool.take(48, 1);
  for (const usize offset : {1, 8, 16, 152}) {
    EXPECT_FALSE(g_mixed_pool.release(span, block + offset));
    EXPECT_EQ(g_mixed_pool.size_of(span, block + offset), 0u);
    EXPECT_EQ(g_mixed_pool.size_around(span, reinterpret_cast<uptr>(block + offset)), 160u);
  }
  const usize bytes = g_mixed_pool.size_of(span, other);
  EXPECT_FALSE(g_mixed_pool.release(span, other, bytes + 1));
  EXPECT_EQ(g_mixed_pool.size_of(span, other), bytes) << "it is too small, and stays";
  EXPECT_EQ(g_mixed_pool.release(span, other, bytes), bytes);
  EXPECT_FALSE(g_mixed_pool.release(span, other));
  EXPECT_EQ(g_mixed_pool.size_around(span, reinterpret_cast<uptr>(other)), 0u);
  EXPECT_TRUE(g_mixed_pool.release(span, block));
  EXPECT_FALSE(g_mixed_pool.release(span, block));
}

FRESH_TEST(Mixed, ASpanThatCannotBeConvertedStaysWhatItWas) {
  start_ground();
  const auto [span, blocks] = carve_span(compute_class(64));
  for (usize i = 1; i < blocks.size(); ++i) free_local(span, blocks[i]);
  os::fake::Faults faults;
  faults.nth = 1;
  faults.duration = os::fake::Duration::from_then_on;
  faults.kinds = os::fake::kCommit;
  os::fake::set_faults(faults);
  EXPECT_FALSE(convert(span));
  EXPECT_EQ(load_word(span, relaxed).state(), SpanState::claimed);
  EXPECT_EQ(g_mixed_pool.make(64, 1), nullptr);
  os::fake::set_faults({});
  // A free block that the program wrote into: the list leads nowhere.
  Block* broken = span->local_free.get();
  Block* next = next_of(broken);
  set_next(broken, reinterpret_cast<Block*>(reinterpret_cast<uptr>(next) + 16));
  EXPECT_FALSE(g_mixed_pool.convert(span));
  set_next(broken, broken);
  EXPECT_FALSE(g_mixed_pool.convert(span));
  EXPECT_EQ(span->use.load(relaxed), SliceUse::span);
  set_next(broken, next);
  // The same among those that others freed: what can be told of them goes on the local list.
  const u32 local = local_count(span);
  push_remote(span, blocks[0], blocks[0], 1);
  set_next(blocks[0], reinterpret_cast<Block*>(uptr{16}));
  EXPECT_FALSE(g_mixed_pool.convert(span));
  EXPECT_EQ(span->local_free.get(), blocks[0]);
  EXPECT_EQ(next_of(blocks[0]), broken);
  EXPECT_EQ(local_count(span), local + 1);
  EXPECT_TRUE(g_mixed_pool.convert(span));
}

FRESH_TEST(Mixed, IdlePagesAreGivenBack) {
  start_ground();
  g_span_choices.flat.set(1);  // blocks of a page lie on pages
  Block* first = g_mixed_pool.make(4096, 1);
  Span* span = first_record(slice_record(&g_arenas.arenas[0], reinterpret_cast<uptr>(first)));
  std::vector<Block*> rest;
  while (Block* block = g_mixed_pool.take(4096, 1)) rest.push_back(block);
  ASSERT_EQ(rest.size(), 7u);
  for (Block* block : rest) fill(block, 4096);
  EXPECT_EQ(g_mixed_pool.purge(span, ~usize{0}), 0u);
  for (usize i = 1; i < 4; ++i) EXPECT_TRUE(g_mixed_pool.release(span, rest[i]));
  EXPECT_EQ(g_mixed_pool.purge(span, 4096), 4096u);
  EXPECT_EQ(g_mixed_pool.purge(span, ~usize{0}), 2 * 4096u);
  EXPECT_EQ(g_mixed_pool.purge(span, ~usize{0}), 0u);
  EXPECT_EQ(g_mixed_pool.check(span), Fault::none);
  EXPECT_TRUE(is_filled(rest[0], 4096));
  Block* again = g_mixed_pool.take(3 * 4096, 1);
  ASSERT_EQ(again, rest[1]);
  fill(again, 3 * 4096);
  EXPECT_TRUE(is_filled(rest[4], 4096));
}

// A page that is absent is not touched for a block that is handed out, and a block that lay there before leaves no
// mark.
FRESH_TEST(Mixed, ASingleBlockIsNotTouched) {
  start_ground();
  g_mixed_pool.make(3 * 4096, 8);
  Block* block = g_mixed_pool.take(3 * 4096, 1);
  Span* span = first_record(slice_record(&g_arenas.arenas[0], reinterpret_cast<uptr>(block)));
  EXPECT_EQ(test::resident_pages(reinterpret_cast<void*>(span_start(span)), span_bytes(span)), 0u);
  fill(block, 3 * 4096);
  ASSERT_TRUE(g_mixed_pool.release(span, block));
  ASSERT_TRUE(may_be_free(block));
  ASSERT_EQ(g_mixed_pool.take(3 * 4096, 1), block);
  EXPECT_FALSE(may_be_free(block));
}

// What was free when a span was wanted, and when one ended, is known to those that ask whether memory is full of holes.
FRESH_TEST(Mixed, HolesAreCountedWhenASpanIsAddedOrEnds) {
  start_ground();
  const auto holes = [] { return counters().holes.load(relaxed); };
  Block* first = g_mixed_pool.make(16, 8);
  EXPECT_EQ(holes(), 0u) << "there was no span before";
  Block* second = g_mixed_pool.make(4096, 4);
  EXPECT_EQ(holes(), 8 * kSliceBytes - 16);
  const auto release = [](Block* block) {
    return g_mixed_pool.release(first_record(slice_record(&g_arenas.arenas[0], reinterpret_cast<uptr>(block))), block);
  };
  ASSERT_EQ(release(first), 16u);
  EXPECT_EQ(holes(), 4 * kSliceBytes - 4096);
  ASSERT_EQ(release(second), 4096u);
  EXPECT_EQ(holes(), 0u);
}

// Another thread's walk over all records may be on its way to it.
FRESH_TEST(Mixed, ASpanThatEndedIsStillCounted) {
  start_ground();
  Block* block = g_mixed_pool.make(4096, 2);
  Span* span = first_record(slice_record(&g_arenas.arenas[0], reinterpret_cast<uptr>(block)));
  ASSERT_TRUE(g_mixed_pool.release(span, block));
  ASSERT_EQ(span->use.load(relaxed), SliceUse::none);
  span->absent.set(0b101);  // as a purge leaves it
  EXPECT_LE(unbacked_bytes(span), 2 * kSliceBytes);
}

// The sweep waits until nothing happened in a span for a whole tick, and then looks at it once.
FRESH_TEST(Mixed, IdlePagesWaitForAWholeTick) {
  start_ground();
  g_span_choices.flat.set(1);  // blocks of a page lie on pages
  auto* first = reinterpret_cast<char*>(g_mixed_pool.make(4096, 1));
  Span* span = first_record(slice_record(&g_arenas.arenas[0], reinterpret_cast<uptr>(first)));
  Block* second = g_mixed_pool.take(3 * 4096, 1);
  fill(second, 3 * 4096);
  EXPECT_EQ(unbacked_bytes(span), 4 * 4096u);
  ASSERT_TRUE(g_mixed_pool.release(span, second));
  usize waits = 0;
  EXPECT_EQ(g_mixed_pool.purge_if_idle(span, &waits), 0u);
  EXPECT_EQ(waits, 7 * 4096u);
  Block* third = g_mixed_pool.take(16, 1);  // it begins anew
  EXPECT_EQ(g_mixed_pool.purge_if_idle(span, &waits), 0u);
  waits = 0;
  EXPECT_EQ(g_mixed_pool.purge_if_idle(span, &waits), 2 * 4096u);
  EXPECT_EQ(waits, 0u);
  EXPECT_EQ(unbacked_bytes(span), 6 * 4096u);
  EXPECT_EQ(g_mixed_pool.purge_if_idle(span, &waits), 0u);
  EXPECT_EQ(waits, 0u) << "it was looked at";
  EXPECT_EQ(g_mixed_pool.check(span), Fault::none);
  EXPECT_TRUE(g_mixed_pool.release(span, third));
  EXPECT_TRUE(g_mixed_pool.release(span, first));
  EXPECT_EQ(held(), 0u);
}

FRESH_TEST(Mixed, PagesThatTheKernelKeepsStayResident) {
  start_ground();
  g_span_choices.flat.set(1);  // blocks of a page lie on pages
  auto* first = reinterpret_cast<char*>(g_mixed_pool.make(4096, 1));
  Span* span = first_record(slice_record(&g_arenas.arenas[0], reinterpret_cast<uptr>(first)));
  Block* second = g_mixed_pool.take(4096, 1);
  fill(second, 4096);
  ASSERT_TRUE(g_mixed_pool.release(span, second));
  os::fake::Faults faults;
  faults.nth = 1;
  faults.duration = os::fake::Duration::from_then_on;
  faults.kinds = os::fake::kPurge;
  os::fake::set_faults(faults);
  EXPECT_EQ(g_mixed_pool.purge(span, ~usize{0}), 0u);
  EXPECT_EQ(unbacked_bytes(span), 6 * 4096u);
  os::fake::set_faults({});
  EXPECT_EQ(g_mixed_pool.check(span), Fault::none);
  EXPECT_EQ(g_mixed_pool.purge(span, ~usize{0}), 4096u);
}

// What mixed spans hold is bounded by the most that was live in them, until there is none.
FRESH_TEST(Mixed, WhatTheyHoldHasALimit) {
  start_ground();
  EXPECT_EQ(g_mixed_pool.limit(), 0u);
  std::vector<Block*> few;
  const auto hold_little = [&] {
    while (Block* block = g_mixed_pool.make(16, 8)) few.push_back(block);
    return counters().mixed.load(relaxed);
  };
  const auto release = [](Block* block) {
    const uptr address = reinterpret_cast<uptr>(block);
    ASSERT_TRUE(g_mixed_pool.release(first_record(slice_record(&g_arenas.arenas[0], address)), block));
  };
  const usize little = hold_little();
  EXPECT_LE(little, kMixedFloor + kMixedPerLive * few.size() * 16);
  EXPECT_GT(little + 8 * kSliceBytes, kMixedFloor);
  EXPECT_FALSE(g_mixed_pool.may_grow(8 * kSliceBytes));
  const auto carved = carve_span(compute_class(1024));
  free_local(carved.span, carved.blocks[0]);
  // A span of one class does not become one then, and stays what it was.
  while (g_mixed_pool.make(16, 1) != nullptr) {
  }
  EXPECT_FALSE(convert(carved.span));
  EXPECT_EQ(carved.span->use.load(relaxed), SliceUse::span);
  // They fill: there may be more of them.
  std::vector<Block*> large;
  while (Block* block = g_mixed_pool.take(16384, 1)) large.push_back(block);
  EXPECT_TRUE(g_mixed_pool.may_grow(8 * kSliceBytes));
  EXPECT_TRUE(g_mixed_pool.convert(carved.span));
  const usize limit = g_mixed_pool.limit();
  EXPECT_GE(limit, kMixedFloor + kMixedPerLive * large.size() * 16384);
  // What was live counts until there is no mixed span.
  for (Block* block : large) release(block);
  EXPECT_EQ(g_mixed_pool.limit(), limit);
  EXPECT_LE(hold_little(), limit);
  EXPECT_TRUE(counters().mixed.load(relaxed) + 8 * kSliceBytes > limit);
}

// Once there is no mixed span what was live in them counts no more: one program's phase gives the next no room.
FRESH_TEST(Mixed, TheirLimitStartsAnew) {
  start_ground();
  std::vector<Block*> blocks;
  const auto make_all = [&] {
    while (Block* block = g_mixed_pool.make(16, 8)) blocks.push_back(block);
  };
  make_all();
  const usize at_first = counters().mixed.load(relaxed);
  while (Block* block = g_mixed_pool.take(16384, 1)) blocks.push_back(block);
  make_all();
  ASSERT_GT(counters().mixed.load(relaxed), at_first) << "they filled";
  for (Block* block : blocks) {
    const uptr address = reinterpret_cast<uptr>(block);
    ASSERT_TRUE(g_mixed_pool.release(first_record(slice_record(&g_arenas.arenas[0], address)), block));
  }
  ASSERT_EQ(counters().mixed.load(relaxed), 0u);
  blocks.clear();
  make_all();
  EXPECT_EQ(counters().mixed.load(relaxed), at_first);
}

// Blocks that others free while a span is converted go to its list, or, once it is a mixed one, to its table.
FRESH_TEST(Mixed, PushesDuringConversion) {
  start_ground();
  constexpr u32 kThreads = 3;
  for (int round = 0; round < 300; ++round) {
    const auto carved = carve_span(compute_class(256));
    Span* span = carved.span;
    const std::vector<Block*>& blocks = carved.blocks;
    for (usize i = kThreads; i < blocks.size(); i += kThreads + 1) free_local(span, blocks[i]);
    ASSERT_TRUE(claim(span));
    test::run_together(kThreads + 1, [&](u32 thread) {
      if (thread > kThreads) {
        ASSERT_TRUE(g_mixed_pool.convert(span));
        return;
      }
      for (usize i = thread - 1; i < blocks.size(); i += kThreads + 1) {
        const PushDuty duty = push_remote(span, blocks[i], blocks[i], 1);
        if (duty == PushDuty::mixed) {
          ASSERT_TRUE(g_mixed_pool.release(span, blocks[i]));
        } else {
          ASSERT_EQ(duty, PushDuty::none);
        }
      }
    });
    ASSERT_EQ(held(), 0u);
  }
}

FRESH_TEST(Mixed, ManyThreadsShareHoles) {
  start_ground(usize{256} << 20, 4);
  test::run_together(4, [&](u32 thread) {
    std::mt19937 random(thread);
    std::vector<std::pair<void*, usize>> live;
    for (int step = 0; step < 20'000; ++step) {
      if (live.size() < 200 && random() % 2 == 0) {
        const u32 bytes = 16 * (1 + static_cast<u32>(random() % 40));
        Block* block = g_mixed_pool.take(bytes, 1);
        if (block == nullptr) block = g_mixed_pool.make(bytes, 1);
        ASSERT_NE(block, nullptr);
        fill(block, bytes);
        live.emplace_back(block, bytes);
      } else if (!live.empty()) {
        const auto [block, bytes] = live.back();
        live.pop_back();
        ASSERT_TRUE(is_filled(block, bytes));
        Span* span = first_record(slice_record(&g_arenas.arenas[0], reinterpret_cast<uptr>(block)));
        if (step % 100 == 0) g_mixed_pool.purge(span, 8 * 4096);
        ASSERT_TRUE(g_mixed_pool.release(span, block));
      }
    }
    for (const auto& [block, bytes] : live) {
      ASSERT_TRUE(is_filled(block, bytes));
      ASSERT_TRUE(
          g_mixed_pool.release(first_record(slice_record(&g_arenas.arenas[0], reinterpret_cast<uptr>(block))), block));
    }
  });
  EXPECT_EQ(held(), 0u);
}

}  // namespace
}  // namespace coffer
