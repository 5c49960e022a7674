// SPDX-License-Identifier: MIT
// What the tests of heaps share: blocks of one class, their spans, and what these are in.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "exchange/chains.hpp"
#include "exchange/inside.hpp"
#include "exchange/lists.hpp"
#include "exchange/mail.hpp"
#include "exchange/ownership.hpp"
#include "exchange/registry.hpp"
#include "exchange/ring.hpp"
#include "exchange/seizing.hpp"
#include "fresh.hpp"
#include "ground.hpp"
#include "heap/allocator.hpp"
#include "inspect/walk.hpp"
#include "observe/counters.hpp"
#include "observe/statistics.hpp"
#include "options.hpp"
#include "os/fake/fake.hpp"
#include "pool/partial_pool.hpp"
#include "span/emptiness.hpp"
#include "worker.hpp"

namespace coffer::test {

// 1 KiB: one slice of 32 blocks, four in a page; reusable from four free blocks on.
inline constexpr usize kSize = 1024;
inline constexpr u32 kCapacity = 32, kThreshold = 4, kBlocksPerPage = 4;
static_assert(kFlatLayout[compute_class(kSize)].capacity == kCapacity);
static_assert(reuse_threshold_at(kDefaultReuseShift, kCapacity, 0) == kThreshold);
inline constexpr ClassIndex kClass = compute_class(kSize);

using Blocks = std::vector<void*>;

// The calling thread's heap; a thread that never had one gets it. nullptr: none can be had.
inline Heap* own_heap() {
  Inside inside;
  return inside.own();
}
// However long a test takes, what its thread does in mixed spans counts.
inline void keep_churn() { own_heap()->churn_began.set(u64{1} << 62); }

inline void* take(usize size = kSize) {
  void* block = allocate_fast(size);
  return block != nullptr ? block : allocate_any(size);
}
inline Blocks take_many(usize count, usize size = kSize) {
  Blocks blocks;
  for (usize i = 0; i < count; ++i) {
    void* block = take(size);
    EXPECT_NE(block, nullptr);
    blocks.push_back(block);
  }
  return blocks;
}
inline void give(void* block) { deallocate(block); }
inline void give_many(const Blocks& blocks, usize from = 0, usize to = ~usize{0}) {
  for (usize i = from; i < blocks.size() && i < to; ++i) give(blocks[i]);
}
// As give_many(take_many(count, size)), with no call of the C library's or a sanitizer's allocator: what forks while
// others do this gets a child that may use that allocator, whose locks fork leaves locked under ThreadSanitizer.
inline void take_and_give(usize count, usize size = kSize) {
  constexpr usize kMost = 512;
  void* blocks[kMost];
  ASSERT_LE(count, kMost);
  for (usize i = 0; i < count; ++i) {
    blocks[i] = take(size);
    ASSERT_NE(blocks[i], nullptr);
  }
  for (usize i = 0; i < count; ++i) give(blocks[i]);
}
// What is held back on chains goes out.
inline void give_now(const Blocks& blocks, usize from = 0, usize to = ~usize{0}) {
  give_many(blocks, from, to);
  if (t_heap != &g_null_heap) close_chains(t_heap);
}

// As if another thread had a heap: the calling one's is not alone.
inline void count_as_several() { g_attached_heaps.fetch_add(1, relaxed); }

inline Span* span_of(const void* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  Arena* arena = arena_of(address);
  return arena != nullptr ? first_record(slice_record(arena, address)) : nullptr;
}
inline SpanState state_of(const Span* span) { return load_word(span, relaxed).state(); }
inline u32 remote_count(const Span* span) { return load_word(span, relaxed).count(); }
inline Heap* owner_of(const Span* span) { return span->owner.load(relaxed); }
// What an owned span is to its heap, too.
inline SpanLife life_of(const Span* span) { return life_of(span, owner_of(span)); }

// Frees that wait on the heap's chains.
inline u32 held_back(const Heap* heap) {
  u32 count = 0;
  for (const Chain& chain : heap->chains) count += chain.span.get() != nullptr ? chain.count() : 0;
  return count;
}
inline usize held_by(const Heap* heap) { return heap->held.load(relaxed); }

// In the order of their addresses.
inline std::vector<Span*> floating_of(const Heap* heap) {
  std::vector<Span*> spans;
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans) return;
    for_each_record(arena, index, [&](Span* span, SliceUse slice_use) {
      const bool floats = slice_use == SliceUse::span && life_of(span) == SpanLife::floating;
      if (floats && owner_of(span) == heap) spans.push_back(span);
    });
  });
  return spans;
}
// The records on a ring, newest first.
inline std::vector<Span*> reusable_of(const Heap* heap, ClassIndex size_class = kClass) {
  std::vector<Span*> spans;
  const SpanNumber newest = heap->reusable[size_class].get();
  for (SpanNumber n = newest; n != 0; n = spans.back()->ring_next.get() == newest ? 0 : spans.back()->ring_next.get()) {
    spans.push_back(span_at(n));
  }
  return spans;
}
inline u32 ring_length(const Heap* heap, ClassIndex size_class) {
  return coffer::ring_length(heap, size_class, ~u32{0});
}
inline u32 claim_at_of(const Span* span) { return span->claim_at.load(relaxed); }
inline void set_state(Span* span, SpanState state) {
  span->remote.store(load_word(span, relaxed).with_state(state).bits(), relaxed);
}

// A span of the calling thread's heap with room, neither hot nor on a ring, that no push claims. `live` blocks are
// taken; of the pages that were carved for them the rest lies on the local list.
inline Span* make_reusable(u32 live, ClassIndex size_class = kClass, Blocks* taken = nullptr) {
  Span* span = make_span(size_class, own_heap());
  t_heap->held.fetch_add(span_bytes(span), relaxed);
  bool zero = false;
  Block* list = nullptr;
  u32 seen = 0;
  while (seen < live) {
    for (Block* block = cut_page(span, &zero); block != nullptr;) {
      Block* next = next_of(block);
      if (++seen > live) {
        set_next(block, list);
        list = block;
      } else if (taken != nullptr) {
        block->mark = 0;  // as malloc hands it out
        taken->push_back(block);
      }
      block = next;
    }
  }
  span->local_free.set(list);
  set_countdown(span, seen - live, kNever);
  span->claim_at.store(kNever, relaxed);
  return span;
}
// As the owner does at an event.
inline void place_again(Span* span) {
  const Inside inside;
  place(inside.heap(), span, state_of(span) == SpanState::claimed ? Claimed::yes : Claimed::no);
}
// A reusable span of the calling thread's heap, on its ring.
inline Span* make_on_ring(u32 live, ClassIndex size_class = kClass, Blocks* taken = nullptr) {
  Span* span = make_reusable(live, size_class, taken);
  place_again(span);
  return span;
}
// Hands on all of the calling thread's heap but what floats.
inline void empty_own_heap() {
  const Inside inside;
  empty_heap(inside.heap());
}
// Pushes blocks one by one, as another thread does without holding them back.
inline void push_blocks(const Blocks& blocks, usize from, usize to) {
  for (usize i = from; i < to; ++i) {
    Block* block = static_cast<Block*>(blocks[i]);
    Span* span = span_of(block);
    do_duty(span, push_remote(span, block, block, 1));
  }
}

inline std::vector<Span*> listed_spans() {
  std::vector<Span*> spans;
  g_partial_pool.for_each([&](Span* span) { spans.push_back(span); });
  return spans;
}

inline usize held_bytes() { return counters().held.load(relaxed); }

// Before the first allocation. Nothing is purged unless a test asks for it. All threads seem to run on one processor:
// which of the waiting heaps a thread gets depends on it.
inline void start_heaps(usize slack = usize{64} << 10, usize arena_bytes = usize{1} << 30) {
  config::Options& options = changeable_options();
  options.slack = slack;
  options.arena = arena_bytes;
  options.free_limit = usize{1} << 40;
  options.shards = 1;
  options.mixed = config::MixedPolicy::never;         // every block in a span of its class
  options.placement = config::PlacementPolicy::flat;  // whose blocks are easy to count, and come in address order
  options.colour = false;
  os::fake::set_current_processor(0);
  ASSERT_TRUE(start_process());
}

// The option, and each heap's share of it as it is after the next thread came or went.
inline void set_free_limit(usize bytes) {
  changeable_options().free_limit = bytes;
  // relaxed, both: hints.
  g_heaps_share.store(heaps_share_of(bytes, counters().heaps.load(relaxed)), relaxed);
}

// The same, and a heap may keep no more free than the option `slack` and its share of an eighth of what is held.
inline void start_tight(usize slack = 0, usize arena_bytes = usize{1} << 30) {
  start_heaps(slack, arena_bytes);
  set_free_limit(0);
  changeable_options().reclaimer = false;
}

// From now on the kernel gives neither address space nor memory.
inline void exhaust_kernel() {
  os::fake::Faults faults;
  faults.nth = 1;
  faults.duration = os::fake::Duration::from_then_on;
  faults.kinds = os::fake::kCommit | os::fake::kReserve;
  os::fake::set_faults(faults);
}
// Threads that use every heap record there is, while the kernel gives no memory for more: the next thread gets none.
inline std::vector<std::unique_ptr<Worker>> fill_heap_records() {
  std::vector<std::unique_ptr<Worker>> threads;
  for (bool got = true; got;) {
    threads.push_back(std::make_unique<Worker>());
    threads.back()->run([&] { got = own_heap() != nullptr; });
  }
  return threads;
}
// Takes all slices that are left, by single ones. The kernel is exhausted.
inline std::vector<SliceRun> exhaust_slices() {
  exhaust_kernel();
  std::vector<SliceRun> runs;
  for (SliceRun run = acquire_slices(1, 1, 0); run.count != 0; run = acquire_slices(1, 1, 0)) {
    // As a large block, so that a walk knows it.
    Span* span = run.arena->spans + run.slice;
    span->slices.set(1);
    span->first_block = slice_address(run.arena, span);
    set_large_bytes(span, kSliceBytes);
    span->large_chunks.set(0);
    span->limit = 0;
    span->use.store(SliceUse::large, relaxed);
    runs.push_back(run);
  }
  return runs;
}

}  // namespace coffer::test
