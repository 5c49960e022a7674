// SPDX-License-Identifier: MIT
// Heaps that another than their thread has: when they can be had, and what their thread finds afterwards. What they are
// had for is in stealing_test.cpp.
#include "exchange/seizing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "heap/refill.hpp"
#include "os/os.hpp"
#include "sleeper.hpp"
#include "support/build.hpp"
#include "support/random.hpp"

namespace coffer {
namespace {

using namespace test;
namespace fake = os::fake;

// --- When a heap can be had. ---

FRESH_TEST(Seize, EmptiesTheHeapOfAThreadThatSleeps) {
  start_heaps(usize{1} << 20);
  Full full;
  const u64 barriers = fake::calls_of(fake::kBarrier);
  EXPECT_TRUE(empty_one(full.heap));
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers + 1);
  EXPECT_EQ(full.heap->self.load(relaxed), full.heap);
  EXPECT_EQ(life_of(full.floating), SpanLife::floating);
  EXPECT_EQ(state_of(full.mailed), SpanState::listed);
  EXPECT_EQ(state_of(full.reusable), SpanState::listed);
  EXPECT_EQ(state_of(full.its_hot), SpanState::listed);
  EXPECT_EQ(full.heap->hot[kClass].get(), nullptr);
  EXPECT_EQ(full.heap->blocks[kClass].get(), nullptr);
  EXPECT_EQ(full.heap->slack.get(), 0u);
  EXPECT_EQ(check_everything(), 0u);
  full.expect_to_go_on();
}

FRESH_TEST(Seize, LeavesAThreadInASlowPathAlone) {
  start_heaps(usize{1} << 20);
  Full full;
  {
    const Stopped stopped(full.heap, kInSlowPath);
    EXPECT_FALSE(empty_one(full.heap));
    full.expect_untouched();
    EXPECT_EQ(full.heap->inside.load(relaxed), kInSlowPath);
    EXPECT_EQ(check_everything(), 0u);
  }
  full.expect_to_go_on();
}

// malloc has read the head of a list, and not taken it yet.
FRESH_TEST(Seize, OfAThreadInMallocsFastPathOnlyPlacesTheMail) {
  start_heaps(usize{1} << 20);
  Full full;
  Block* list = full.heap->blocks[kClass].get();
  {
    const Stopped stopped(full.heap, kPopping);
    EXPECT_FALSE(empty_one(full.heap));
    EXPECT_EQ(full.heap->mailbox.load(relaxed), 0u);
    EXPECT_EQ(life_of(full.mailed), SpanLife::reusable);
    EXPECT_EQ(full.heap->blocks[kClass].get(), list);
    EXPECT_EQ(full.heap->hot[kClass].get(), full.its_hot);
    EXPECT_EQ(life_of(full.reusable), SpanLife::reusable);
    EXPECT_EQ(full.heap->self.load(relaxed), full.heap);
    EXPECT_EQ(check_everything(), 0u);
  }
  full.thread.run([&] {
    EXPECT_EQ(take(), list);
    full.hot.push_back(list);
  });
  full.expect_to_go_on();
}

// free has read the local list of its span, and not written it yet.
FRESH_TEST(Seize, OfAThreadInFreesFastPathPlacesTheMailButForItsSpan) {
  start_heaps(usize{1} << 20);
  for (const bool at_mailed : {false, true}) {
    Full full;
    Span* at_work = at_mailed ? full.mailed : full.reusable;
    const Block* local = at_work->local_free.get();
    {
      const Stopped stopped(full.heap, at_work_on(at_work));
      EXPECT_FALSE(empty_one(full.heap));
      EXPECT_EQ(is_mailed(full.mailed), at_mailed);
      EXPECT_EQ(life_of(full.mailed), at_mailed ? SpanLife::claimed : SpanLife::reusable);
      EXPECT_EQ(at_work->local_free.get(), local);
      EXPECT_EQ(full.heap->hot[kClass].get(), full.its_hot);
      EXPECT_EQ(life_of(full.reusable), SpanLife::reusable);
      EXPECT_EQ(check_everything(), 0u);
    }
    full.expect_to_go_on();
  }
}

FRESH_TEST(Seize, LeavesAHeapThatAnotherHas) {
  start_heaps(usize{1} << 20);
  Full full;
  const u64 barriers = fake::calls_of(fake::kBarrier);
  {
    const Seized seized(full.heap);
    EXPECT_FALSE(empty_one(full.heap));
    EXPECT_EQ(full.heap->self.load(relaxed), &g_null_heap) << "it is not given back by the wrong one";
    EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers);
  }
  full.expect_untouched();
  EXPECT_TRUE(empty_one(full.heap));
}

FRESH_TEST(Seize, OfAHeapWithoutAThreadNeedsNoBarrier) {
  start_heaps(usize{1} << 20);
  Full full;
  full.thread.end();
  const u64 barriers = fake::calls_of(fake::kBarrier);
  EXPECT_TRUE(empty_one(full.heap));
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers);
  EXPECT_EQ(held_by(full.heap), kSliceBytes * 2) << "what floats";
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Seize, SeveralShareABarrier) {
  start_heaps(usize{1} << 20);
  std::vector<std::unique_ptr<Sleeper>> sleepers;
  std::vector<Heap*> heaps;
  for (u32 i = 0; i < 5; ++i) {
    sleepers.push_back(std::make_unique<Sleeper>());
    sleepers.back()->thread.run([] { take(); });
    heaps.push_back(sleepers.back()->heap);
  }
  sleepers[4]->thread.end();
  const Stopped slow(heaps[1], kInSlowPath), fast(heaps[2], kPopping);
  const Seized seized(heaps[3]);
  const u64 barriers = fake::calls_of(fake::kBarrier);
  EXPECT_EQ(seize(heaps.data(), 5, empty_heap), 2u) << "one that sleeps, and one without a thread";
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers + 1);
  for (const u32 i : {0u, 1u, 2u, 4u}) {
    EXPECT_EQ(heaps[i]->self.load(relaxed), heaps[i]);
    EXPECT_EQ(heaps[i]->hot[kClass].get() == nullptr, i == 0 || i == 4) << i;
  }
  EXPECT_EQ(seize(heaps.data(), 0, empty_heap), 0u);
}

FRESH_TEST(Seize, WithoutABarrierNothingIsTakenAndNothingLost) {
  start_heaps(usize{1} << 20);
  Full full;
  fake::Faults faults;
  faults.nth = 1;
  faults.duration = fake::Duration::from_then_on;
  faults.kinds = fake::kBarrier;
  fake::set_faults(faults);
  EXPECT_FALSE(empty_one(full.heap));
  {
    const Stopped stopped(full.heap, kPopping);
    EXPECT_FALSE(empty_one(full.heap));
  }
  EXPECT_EQ(fake::failed_calls(), 2u);
  full.expect_untouched();
  steal_from_heaps(Take::pages);
  EXPECT_FALSE(steal_from_idle_heaps(t_heap, 1000));
  empty_idle_heaps();
  EXPECT_TRUE(empty_idle_heaps()) << "another time, perhaps";
  full.expect_untouched();
  // Blocks can be had and freed all the same.
  const Blocks mine = take_many(kCapacity + 1);
  give_now(full.spans[0]);
  full.spans[0].clear();
  give_now(mine);
  EXPECT_TRUE(is_mailed(full.mailed));
  EXPECT_EQ(check_everything(), 0u);
  fake::stop_faults();
  EXPECT_TRUE(empty_one(full.heap));
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Seize, TheFallbackHeapIsHadByItsLock) {
  start_heaps(usize{1} << 20);
  own_heap();
  Blocks blocks;
  {
    const FallbackHeap fallback;
    bool zero = false;
    for (u32 i = 0; i < kCapacity + 1; ++i) blocks.push_back(allocate_block(fallback.get(), kClass, true, &zero));
    Worker other;
    other.run([] { EXPECT_FALSE(empty_one(heap_by_index(0))) << "who has it is at work"; });
  }
  const u64 barriers = fake::calls_of(fake::kBarrier);
  EXPECT_TRUE(empty_one(heap_by_index(0)));
  EXPECT_EQ(fake::calls_of(fake::kBarrier), barriers);
  EXPECT_EQ(state_of(span_of(blocks[kCapacity])), SpanState::listed);
  EXPECT_EQ(check_everything(), 0u);
  give_now(blocks);
  EXPECT_EQ(check_everything(), 0u);
}

// --- Threads at work, while others seize their heaps as fast as can be. ---

// Each block is written by whoever holds it: one that two hold at a time shows.
struct Held {
  u64* block;
  u64 mark;
  usize size;
};
bool is_whole(const Held& held) {
  return held.block[0] == held.mark && held.block[(held.size - 1) / sizeof(u64)] == held.mark;
}

class Exchange {
 public:
  // Puts a block in, and gets the one that was there.
  Held swap(usize at, const Held& held) {
    const std::lock_guard lock(mutex_);
    std::swap(held_[at % kPlaces], const_cast<Held&>(held));
    return held;
  }

 private:
  static constexpr usize kPlaces = 512;
  std::mutex mutex_;
  Held held_[kPlaces] = {};
};

void work(u64 seed, u32 rounds, Exchange& exchange) {
  test::Random random(seed);
  std::vector<Held> live;
  const auto end = [&](const Held& held) {
    if (held.block == nullptr) return;
    if (!is_whole(held)) ADD_FAILURE() << "a block of " << held.size << " was another's, too";
    give(held.block);
  };
  for (u32 round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    const bool grow = (round / 500) % 2 == 0;
    if (live.empty() || random.below(100) < (grow ? 70 : 30)) {
      const usize size = random.below(50) == 0 ? 8 + random.below(60'000) : 8 + random.below(1500);
      Held held = {static_cast<u64*>(take(size)), seed << 32 | round, size / 8 * 8};
      held.block[0] = held.block[(held.size - 1) / sizeof(u64)] = held.mark;
      live.push_back(held);
    } else {
      const usize i = random.below(live.size());
      Held held = live[i];
      live[i] = live.back();
      live.pop_back();
      // Half of them are freed by whoever gets them.
      end(random.below(2) == 0 ? exchange.swap(random.below(512), held) : held);
    }
  }
  for (const Held& held : live) end(held);
}

// Heaps of a few workers, of ended threads and of one that sleeps.
void seize_from_all_for(u32 rounds) {
  constexpr u32 kWorkers = 3;
  own_heap();
  auto exchange = std::make_unique<Exchange>();
  Sleeper sleeper;
  std::atomic<u32> working{kWorkers};
  std::atomic<u64> seized{0};
  std::vector<std::thread> threads;
  for (u32 w = 1; w <= kWorkers; ++w) {
    threads.emplace_back([&, w] {
      // A worker ends now and then; the next one goes on with its heap, or another's. On a busy machine until enough
      // were seized.
      for (u32 life = 0; life < 3 || (seized.load() <= 20 && life < 30); ++life) {
        std::thread([&] { work(w * 10 + life, rounds, *exchange); }).join();
      }
      working.fetch_sub(1);
    });
  }
  for (u32 s = 0; s < 2; ++s) {
    threads.emplace_back([&, s] {
      for (u32 i = s; working.load() != 0; ++i) {
        Heap* heap = heap_by_index(1 + i % (heaps_ever() - 1));
        if (seize_one(heap, i % 2 == 0 ? empty_heap : release_idle)) seized.fetch_add(1);
        if (i % 7 == 0) seized.fetch_add(steal_from_idle_heaps(t_heap, kIdleSlices) ? 1 : 0);
        if (i % 11 == 0) steal_from_heaps(i % 2 == 0 ? Take::pages : Take::empty_spans);
        if (i % 13 == 0) empty_idle_heaps();
        give(take(100));
        if (i % 3 == 0) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(seized.load(), 20u);
  EXPECT_EQ(check_everything(), 0u);
  for (u32 i = 0; i < 512; ++i) {
    const Held held = exchange->swap(i, Held{});
    if (held.block == nullptr) continue;
    EXPECT_TRUE(is_whole(held));
    give(held.block);
  }
  sleeper.thread.end();
  empty_own_heap();
  steal_from_heaps(Take::pages);
  EXPECT_EQ(check_everything(), 0u);
  EXPECT_EQ(held_bytes(), 0u) << "nothing is lost";
}

constexpr u32 kRounds = kThreadSanitizer ? 6000 : 150'000;

FRESH_TEST(SeizeStress, ThreadsLoseNothing) {
  start_heaps();
  seize_from_all_for(kRounds);
}

FRESH_TEST(SeizeStress, ThreadsLoseNothingWithoutSlack) {
  start_tight(0);
  seize_from_all_for(kRounds);
}

FRESH_TEST(SeizeStress, ThreadsLoseNothingWithMixedSpans) {
  start_heaps();
  changeable_options().mixed = config::MixedPolicy::automatic;
  seize_from_all_for(kRounds);
}

FRESH_TEST(SeizeStress, ThreadsLoseNothingWithoutABarrier) {
  fake::set_barrier(false);
  start_heaps();
  seize_from_all_for(kRounds);
}

FRESH_TEST(SeizeStress, ThreadsLoseNothingWhereBarriersFailNowAndThen) {
  start_heaps();
  fake::Faults faults;
  faults.kinds = fake::kBarrier;
  faults.one_in = 3;
  fake::set_faults(faults);
  seize_from_all_for(kRounds);
  fake::stop_faults();
}

// --- A thread that ends while another has its heap. ---

std::atomic<bool> g_may_end{false};
std::thread* g_ending;

// Before, its chains stayed open until a thread that took the heap next closed them: blocks that were freed counted as
// live when all was over (stress.thread_exit, one run of 26).
FRESH_TEST(Seizing, ChainsOfAThreadThatEndsMeanwhileAreClosed) {
  start_heaps();
  const Blocks blocks = take_many(4);
  std::atomic<Heap*> heap{nullptr};
  std::thread ending([&] {
    give(blocks[0]);
    give(blocks[1]);
    heap.store(t_heap);
    while (!g_may_end.load()) os::yield();
  });
  g_ending = &ending;
  while (heap.load() == nullptr) os::yield();
  Heap* const seized = heap.load();
  const auto open_chains = [=] {
    return std::count_if(std::begin(seized->chains), std::end(seized->chains),
                         [](const Chain& chain) { return chain.span.get() != nullptr; });
  };
  ASSERT_EQ(open_chains(), 1);
  ASSERT_EQ(seize(&seized, 1,
                  [](Heap*) {
                    g_may_end.store(true);
                    g_ending->join();
                  }),
            1u);
  EXPECT_EQ(open_chains(), 0);
  EXPECT_EQ(seized->left_chains.load(relaxed), 0u);  // relaxed: its thread has ended
  EXPECT_EQ(check_everything(), 0u);
}

}  // namespace
}  // namespace coffer
