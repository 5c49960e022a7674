// SPDX-License-Identifier: MIT
// coffer_check: every invariant that a walk can see. Other threads must be outside Coffer meanwhile.
#include "budget/budget.hpp"
#include "exchange/mail.hpp"
#include "exchange/registry.hpp"
#include "exchange/ring.hpp"
#include "exchange/sums.hpp"
#include "inspect/walk.hpp"
#include "mixed/mixed.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/partial_pool.hpp"
#include "pool/reclaimer.hpp"
#include "pool/slot_pool.hpp"
#include "span/choices.hpp"
#include "span/class_use.hpp"
#include "span/emptiness.hpp"

namespace coffer {

namespace {

// A figure of one heap in a sum over all: differences of two heaps do not make up for each other, as they would in a
// plain sum, and no table of heaps is needed.
usize weighted(const Heap* heap, usize bytes) {
  constexpr usize kOdd = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  const usize weight = (heap->index.get() + 1) * kOdd;
  return bytes * ((weight ^ (weight >> 32)) * kOdd);
}

class Checker {
 public:
  usize violations() const { return violations_; }

  void check_heaps();
  void check_chunk(Arena* arena, u32 index, ChunkUse use);
  void check_partial_pool();
  void check_sums();
  void check_classes();

 private:
  void expect(bool holds, const char* line) {
    if (holds) return;
    ++violations_;
    usize length = 0;
    while (line[length] != 0) ++length;
    os::write_error("coffer: check: ", 15);
    os::write_error(line, length);
    os::write_error("\n", 1);
  }

  // Walks a list of the span's free blocks; returns its length.
  u32 walk(const Span* span, const Block* list);
  void check_span(Span* span);
  void check_mixed(Span* span);
  void check_hole_list(const Block* list, usize bytes);
  usize check_ring(const Heap* heap, SpanNumber newest);

  usize violations_ = 0;
  usize owned_ = 0;  // bytes of spans that heaps own, each weighted
  usize mixed_ = 0;  // bytes of mixed spans
  usize mixed_live_ = 0;
};

u32 Checker::walk(const Span* span, const Block* list) {
  u32 count = 0;
  for (; list != nullptr && count <= span->capacity.get(); list = list->next) {
    const uptr address = reinterpret_cast<uptr>(list);
    if (!is_block_of(span, address)) {
      expect(false, "a free list holds an address that is no block of its span");
      return count;
    }
    const u64 page = (address - span_start(span)) / kCarvePage;
    expect(((span->absent.get() >> page) & 1) == 0, "a block of an absent page is on a list");
    ++count;
  }
  expect(count <= span->capacity.get(), "a free list has a cycle");
  return count;
}

void Checker::check_span(Span* span) {
  const RemoteWord word = load_word(span, acquire);  // acquire: pairs with make_span
  const Heap* owner = span->owner.load(relaxed);     // relaxed, all here: no other thread is inside
  const u32 local = walk(span, span->local_free.get());
  const Block* first =
      word.first() == 0 ? nullptr : reinterpret_cast<Block*>(span_start(span) + uptr{word.first() - 1} * kQuantum);
  const u32 remote = walk(span, first);
  expect(local == local_count(span), "the local list is not as long as the countdown says");
  expect(count_absent_blocks(span) == absent_count(span), "absent pages do not hold the blocks that are not cut");
  expect(word.state() != SpanState::free && word.state() != SpanState::returning,
         "a span in use is in a passing state");
  if (is_private(word.state())) {
    expect(owner != nullptr, "a private span has no owner");
    expect(word.state() != SpanState::claimed || is_mailed(span), "a claimed span was handed on to nobody");
    expect(word.count() == remote, "the remote list is not as long as its count");
    expect(local + remote + absent_count(span) <= span->capacity.get(), "a span has more free blocks than blocks");
  } else {
    expect(owner == nullptr, "a shared span has an owner");
    expect(word.count() == remote + local + absent_count(span), "a shared span's count is wrong");
    expect(word.count() < span->capacity.get(), "an empty shared span was not given back");
    expect((word.state() == SpanState::listed) == PartialPool::is_linked(span), "listed and linked differ");
  }
  if (owner != nullptr) owned_ += weighted(owner, span_bytes(span));
  const bool hot = owner != nullptr && owner->hot[span->size_class.get()].get() == span;
  expect(!stands_on_ring(span) || (owner != nullptr && !hot), "a span on a ring is hot, or nobody's");
}

void Checker::check_mixed(Span* span) {
  mixed_ += span_bytes(span);
  mixed_live_ += MixedPool::live_bytes(span);
  switch (g_mixed_pool.check(span)) {
    case MixedPool::Fault::none:
      return;
    case MixedPool::Fault::state:
      return expect(false, "a mixed span has an owner, a list or another state");
    case MixedPool::Fault::table:
      return expect(false, "a mixed span's table is broken");
    case MixedPool::Fault::count:
      return expect(false, "a mixed span's count is not what its table says, or it is empty");
    case MixedPool::Fault::hole:
      return expect(false, "a mixed span's record and its table have different holes");
    case MixedPool::Fault::list:
      return expect(false, "a mixed span is on the wrong list");
  }
}

// Blocks of a class without a hot span: cut from holes of mixed spans.
void Checker::check_hole_list(const Block* list, usize bytes) {
  for (u32 count = 0; list != nullptr; list = list->next, ++count) {
    const uptr address = reinterpret_cast<uptr>(list);
    Arena* arena = arena_of(address);
    Span* span = arena != nullptr ? first_record(slot_record(arena, address)) : nullptr;
    const bool whole = span != nullptr && is_mixed(span) && g_mixed_pool.size_of(span, list) >= bytes;
    expect(whole && count < kMostTaken, "a heap has blocks without a hot span that are not of a mixed one");
    if (!whole || count >= kMostTaken) return;
  }
}

// Walks a ring of reusable spans; returns the slack they count for.
usize Checker::check_ring(const Heap* heap, SpanNumber newest) {
  usize slack = 0;
  for (SpanNumber number = newest; number != 0;) {
    const Span* span = span_at(number);
    expect(span->owner.load(relaxed) == heap, "a span on a heap's ring is not its own");  // relaxed: as above
    slack += span->ring_slack.get();
    const SpanNumber next = span->ring_next.get();
    const bool whole = next != 0 && span_at(next)->ring_previous.get() == number;
    expect(whole, "a heap's ring is broken");
    number = whole && next != newest ? next : 0;
  }
  return slack;
}

void Checker::check_heaps() {
  for (u32 i = 0; i < heaps_ever(); ++i) {
    if (i == 0 && !fallback_heap_used()) continue;
    const Heap* heap = heap_by_index(i);
    // relaxed, both: no other thread is inside. A record that nobody ever had names nobody.
    const bool let_go = heap->self.load(relaxed) == heap || heap->self.load(relaxed) == nullptr;
    expect(let_go, "a heap is still seized");
    usize slack = 0;
    for (ClassIndex c = 0; c < kClasses; ++c) {
      slack += check_ring(heap, heap->reusable[c].get());
      const Span* hot = heap->hot[c].get();
      if (hot == nullptr) check_hole_list(heap->blocks[c].get(), class_layout(c).block_bytes);
      if (hot != nullptr) {
        // relaxed: no other thread is inside.
        expect(hot->owner.load(relaxed) == heap && hot->size_class.get() == c, "a heap's hot span is not its own");
        const u32 listed = walk(hot, heap->blocks[c].get());
        expect(listed + known_free_blocks(hot) <= hot->capacity.get(), "a hot span has more free blocks than blocks");
      }
    }
    expect(slack == heap->slack.get(), "a heap's slack is wrong");
  }
}

void Checker::check_chunk(Arena* arena, u32 index, ChunkUse use) {
  const Chunk& chunk = arena->chunks[index];
  // acquire, relaxed: no other thread is inside; acquire as every reader of slots.
  const u64 free = chunk.free.load(acquire);
  const u64 dirty = chunk.dirty.load(relaxed);
  expect(use != ChunkUse::none, "a chunk is taken and not described");
  if (use != ChunkUse::spans) return;
  expect((dirty & ~free) == 0, "a slot in use counts as free memory");
  for (u32 i = 0; i < kSlotsPerChunk;) {
    Span* record = arena->spans + usize{index} * kSlotsPerChunk + i;
    // relaxed, here and below: no other thread is inside.
    const SlotUse slot_use = record->use.load(relaxed);
    if ((free >> i) & 1) {
      expect(slot_use == SlotUse::none, "a free slot is described");
      ++i;
      continue;
    }
    const bool described = slot_use == SlotUse::span || slot_use == SlotUse::large || slot_use == SlotUse::mixed;
    expect(described, "a slot is lost");
    if (!described) {
      ++i;
      continue;
    }
    if (slot_use == SlotUse::span) check_span(record);
    if (slot_use == SlotUse::mixed) check_mixed(record);
    const SlotUse rest = slot_use != SlotUse::large ? SlotUse::span_rest : SlotUse::large_rest;
    const u32 slots = record->slots.get();
    for (u32 j = 1; j < slots && i + j < kSlotsPerChunk; ++j) {
      // relaxed: as above.
      expect(record[j].use.load(relaxed) == rest && record[j].first_distance.get() == j, "a later slot is wrong");
      expect(((free >> (i + j)) & 1) == 0, "a slot of a span is free");
    }
    i += slots;
  }
}

void Checker::check_partial_pool() {
  g_partial_pool.for_each([&](Span* span) {
    expect(load_word(span, relaxed).state() == SpanState::listed, "a span of the partial pool is not listed");
  });
}

void Checker::check_classes() {
  ClassSums sums;
  sum_classes(sums);
  for (ClassIndex c = 0; c < kClasses; ++c) {
    expect(sums.used[c] == class_used(c), "what a class uses is not what was counted");
    // With several shards the bound is a figure: a maker may miss spans that are listed behind its look
    // (docs/design/bound.md, "What is proven").
    expect(shard_count() > 1 || sums.held[c] <= bound_of_class(class_high(c)) + makers_bound(c),
           "the spans of a class hold more than their bound");
  }
}

void Checker::check_sums() {
  const Sums sums = sum_chunks();
  const Counters& counts = counters();
  usize heaps_hold = 0;
  // relaxed, all: no other thread is inside. Ended threads' heaps may own floating spans.
  for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever(); ++i) {
    const Heap* heap = heap_by_index(i);
    heaps_hold += weighted(heap, heap->held.load(relaxed));
  }
  expect(sums.held == counts.held.exact(), "the bytes held are not what the counter says");
  expect(owned_ == heaps_hold, "what the heaps hold is not what they count");
  expect(sums.dirty == counts.dirty.exact(), "the free resident bytes are not what the counter says");
  expect(sums.held + sums.tails + sums.dirty + counts.metadata.load(relaxed) == budget().charged.load(relaxed),
         "what is charged to the limit is not what may be resident");
  expect(mixed_ == counts.mixed.load(relaxed), "the bytes of mixed spans are not what the counter says");
  expect(mixed_live_ == g_mixed_pool.counted_live(), "what is live in mixed spans is not what was counted");
  expect(mixed_ <= g_mixed_pool.limit(), "mixed spans hold more than their bound");
  expect(sums.large == counts.large.exact(), "the bytes in large blocks are not what the counter says");
  expect(sums.large_blocks == counts.large_blocks.exact(), "the large blocks are not as many as counted");
}

}  // namespace

usize check_everything() {
  if (!start_process()) return 0;
  settle_fork();
  const ReclaimerRests rests;
  Checker checker;
  checker.check_heaps();
  for_each_chunk([&](Arena* arena, u32 index, ChunkUse use) { checker.check_chunk(arena, index, use); });
  checker.check_partial_pool();
  checker.check_sums();
  checker.check_classes();
  return checker.violations();
}

}  // namespace coffer
