// SPDX-License-Identifier: MIT
// What the scenarios of spans' lives share: blocks of one class, pushes, and what has to be true after each order.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "heaps.hpp"
#include "interleavings/explorer.hpp"

namespace coffer::test {

// 2 KiB: 16 blocks in a span, reusable from two free ones on.
inline constexpr usize kBytes = 2048;
inline constexpr ClassIndex kTwoKiB = compute_class(kBytes);
inline constexpr u32 kBlocks = 16;
static_assert(kFlatLayout[kTwoKiB].capacity == kBlocks && reuse_threshold_at(kDefaultReuseShift, kBlocks, 0) == 2);

inline constexpr u32 kMostOrders = 90'000;

inline SpanLife role_of(const void* block) { return life_of(span_of(block)); }

inline Blocks take_span() { return take_many(kBlocks, kBytes); }
// And one block of the next span: the first one floats.
inline Blocks take_floating_span() {
  Blocks blocks = take_span();
  blocks.push_back(take(kBytes));
  EXPECT_EQ(role_of(blocks[0]), SpanLife::floating);
  return blocks;
}
// Of a thread whose heap was emptied after its end.
inline Blocks take_shared_span() {
  Blocks blocks;
  Worker owner;
  owner.run([&] {
    blocks = take_span();
    const Inside inside;
    empty_heap(inside.heap());
  });
  owner.end();
  EXPECT_EQ(state_of(span_of(blocks[0])), SpanState::shared);
  return blocks;
}

// A chain of blocks in one push, with what it leaves to do: what a thread's frees come down to. Inside, as these are.
inline void push(const Blocks& blocks, u32 from, u32 to) {
  const auto block = [&](u32 i) { return static_cast<Block*>(blocks[i]); };
  for (u32 i = from; i + 1 < to; ++i) set_next(block(i), block(i + 1));
  Span* span = span_of(blocks[from]);
  const Inside inside;
  do_duty(span, push_remote(span, block(from), block(to - 1), to - from));
}
inline void push_each(const Blocks& blocks, u32 from, u32 to) {
  for (u32 i = from; i < to; ++i) push(blocks, i, i + 1);
}

// Another thread, which has a heap and nothing in it.
inline Actor other(std::function<void()> run) {
  return {[] { own_heap(); }, std::move(run)};
}
// A thread without a heap that seizes every heap it can.
inline Actor seizer(Take what = Take::pages) {
  return {nullptr, [what] { steal_from_heaps(what); }};
}

// Blocks that were handed out, and are not freed: no two are the same. They are freed.
inline void give_different(std::initializer_list<Blocks> parts) {
  Blocks all;
  for (const Blocks& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  ASSERT_TRUE(std::adjacent_find(all.begin(), all.end()) == all.end()) << "a block was handed out twice";
  give_many(all);
}
inline Blocks from(const Blocks& blocks, u32 first) { return {blocks.begin() + first, blocks.end()}; }

inline constexpr u32 kHeapsWatched = 6;

// A process, and what every order of its threads' steps has to leave behind. The steps that count are those on what a
// span's record says, the mailboxes, and the partial pool with its locks.
class Life {
 public:
  explicit Life(usize slack = 0) {
    start_tight(slack);
    own_heap();  // the exploring thread's heap comes first, and has nothing that could be taken from it
    baseline_ = held_bytes();
    watch(g_arenas.arenas[0].spans, kSlicesPerChunk * sizeof(Span));
    watch(&g_partial_pool, sizeof(PartialPool));
    watch_heaps([](Heap* heap) { watch(&heap->mailbox, sizeof heap->mailbox); });
  }
  // Explores; after each order frees what `left` says the program still holds, and sees that nothing else is held.
  void explore(std::vector<Actor> actors, const std::function<void()>& free_the_rest, u32 switches = 2) {
    Scenario scenario;
    scenario.actors = std::move(actors);
    scenario.after = [&] {
      ASSERT_EQ(check_everything(), 0u);
      ASSERT_EQ(attached_heaps(), 1u);
      expect_no_unseen_mail();
      free_the_rest();
      steal_from_heaps(Take::pages);
      steal_from_heaps(Take::pages);  // the chains that the first time closed filled boxes
      ASSERT_EQ(check_everything(), 0u);
      ASSERT_TRUE(listed_spans().empty());
      ASSERT_EQ(held_bytes(), baseline_);
    };
    EXPECT_GT(test::explore(scenario, switches, kMostOrders), 10u);
  }

 protected:
  template <class Visit>
  void watch_heaps(Visit&& visit) {
    for (u32 i = 0; i < kHeapsWatched; ++i) visit(heap_by_index(i));
  }

 private:
  // Mail to a heap whose thread has ended is taken at once, by one side or the other.
  static void expect_no_unseen_mail() {
    for (u32 i = 1; i < heaps_ever(); ++i) {
      const Heap* heap = heap_by_index(i);
      EXPECT_TRUE(heap->attached.load(relaxed) != 0 || heap->mailbox.load(relaxed) == 0) << "heap " << i;
    }
  }

  usize baseline_ = 0;
};

// One in which what threads say of their heaps counts, too: who has them.
class SeizedLife : public Life {
 public:
  explicit SeizedLife(usize slack = 0) : Life(slack) {
    watch_heaps([](Heap* heap) {
      watch(&heap->self, sizeof heap->self);
      watch(&heap->inside, sizeof heap->inside);
      watch(&heap->attached, sizeof heap->attached);
    });
  }
};

// And one in which a fast path may stop between its plain accesses: to the lists that malloc pops from, and to those
// that free pushes on; and a slow path where it counts what the rings hold.
class TornLife : public SeizedLife {
 public:
  explicit TornLife(usize slack = 0) : SeizedLife(slack) {
    watch_heaps([](Heap* heap) {
      watch_owned(&heap->blocks[kTwoKiB], sizeof heap->blocks[kTwoKiB]);
      watch_owned(&heap->slack, sizeof heap->slack);
    });
    for (u32 i = 0; i < 8; ++i) {
      const Span* span = g_arenas.arenas[0].spans + i;
      watch_owned(&span->local_free, sizeof span->local_free);
      watch_owned(&span->countdown, sizeof span->countdown);
    }
  }
};

}  // namespace coffer::test
