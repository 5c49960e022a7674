// SPDX-License-Identifier: MIT
#include "heap/mixing.hpp"

#include "base/bits.hpp"
#include "base/hardening.hpp"
#include "config/config.hpp"
#include "exchange/lists.hpp"
#include "exchange/mixed_free.hpp"
#include "exchange/ownership.hpp"
#include "exchange/registry.hpp"
#include "exchange/ring.hpp"
#include "exchange/watch.hpp"
#include "mixed/idle.hpp"
#include "mixed/mixed.hpp"
#include "observe/counters.hpp"
#include "policy/kept.hpp"
#include "policy/mixing.hpp"
#include "pool/partial_pool.hpp"
#include "span/choices.hpp"
#include "span/emptiness.hpp"

namespace coffer {

namespace {

using config::MixedPolicy;

// Where the search for spans to convert goes on, by class.
Atomic<u32> g_cursor;

// What was free in mixed spans when the last round of looks for their idle pages ended.
Atomic<usize> g_looked_at;

bool always() { return config::options().mixed == MixedPolicy::always; }
bool never() {
  const MixedPolicy policy = config::options().mixed;
  return policy == MixedPolicy::never || (!kHardening.mixes && policy == MixedPolicy::automatic);
}

// Whether so little is live in the span, an eighth at most or one block, that its holes are worth more to others.
bool is_convertible(const Span* span, u32 free) {
  const u32 capacity = span->capacity.get();
  return free >= capacity - divide_up(capacity, usize{kSmallPart}) || always();
}

// Free bytes that no class but their own can use.
usize waste(const Heap* heap) { return heap->slack.get() + g_partial_pool.listed_bytes(); }

// Whether the process would grow past all it had before if a span were made now. Where free slices are at hand, or
// memory only comes back to what it was, mixing saves nothing at the peak. relaxed, all: thresholds that may be late.
bool would_grow() {
  const Counters& counts = counters();
  const usize dirty = counts.dirty.load(relaxed);
  return dirty <= kNegligible && counts.held.load(relaxed) + dirty + kSliceBytes >= counts.peak.load(relaxed);
}

// Whether a conversion is worth it: the class that it takes a span from may want one back.
bool is_fragmented(const Heap* heap) {
  if (always()) return true;
  return would_grow() && waste(heap) > kNegligible && g_mixed_pool.may_grow(kMaxSpanSlices * kSliceBytes);
}

// So much free in mixed spans is much: a sixteenth of what is held. relaxed: as above.
usize much_free() { return counters().held.load(relaxed) / (2 * kSmallPart); }

// Whether much of what mixed spans hold was free when another one was wanted: then blocks lie closer in these.
bool is_full_of_holes() {
  // relaxed, all: as above.
  return counters().mixed.load(relaxed) >= 2 * kSmallProcess && counters().holes.load(relaxed) > much_free();
}

// Converts an owned span of the heap, unless a push claims it first.
bool convert(Heap* heap, Span* span) {
  if (!claim(span)) return false;
  const usize bytes = span_bytes(span);
  const usize over = over_budget(heap);
  if (g_mixed_pool.convert(span)) {
    heap->held.fetch_sub(bytes, relaxed);  // relaxed: a figure for budgets
    shed_down(heap, over);
    return true;
  }
  place(heap, span, Claimed::yes);
  return false;
}

// Converts a span on the heap's ring of the class.
bool convert_own(Heap* heap, ClassIndex size_class, u32* looks) {
  while (*looks > 0) {
    Span* span = pop_ring(heap, size_class);
    if (span == nullptr) return false;
    *looks -= 1;
    if (!is_convertible(span, free_blocks(span, relaxed))) {  // relaxed: a guess
      place(heap, span);
      return false;  // it was the oldest, so the others are hardly emptier
    }
    if (convert(heap, span)) return true;
  }
  return false;
}

// Converts a span of the partial pool.
bool convert_listed(Heap* heap, ClassIndex size_class, u32* looks) {
  if (*looks == 0) return false;
  Span* span = g_partial_pool.adopt(
      size_class, current_shard(),
      [&](Span* listed) {
        // relaxed: take_over checks it.
        return is_convertible(listed, load_word(listed, relaxed).count()) && take_over(heap, listed);
      },
      *looks);
  if (span == nullptr) return false;
  *looks -= 1;
  return convert(heap, span);
}

bool convert_some(Heap* heap, ClassIndex for_class) {
  const u32 start = g_cursor.load(relaxed);  // relaxed: a place to start
  u32 looks = kLooks;
  for (u32 i = 0; i < kClasses && looks > 0; ++i) {
    const ClassIndex size_class = (start + i) % kClasses;
    if (size_class == for_class) continue;
    if (convert_own(heap, size_class, &looks) || convert_listed(heap, size_class, &looks)) {
      g_cursor.store(size_class, relaxed);  // relaxed: as above
      return true;
    }
  }
  g_cursor.store(start + 1, relaxed);  // relaxed: as above
  return false;
}

// Where there are other heaps, what this one gets shares no cache line with theirs: two threads that write to blocks of
// one line slow each other down (Hoard, section 2.3: actively induced false sharing).
u32 exact_bytes(usize size) {
  const u32 bytes = units_for(size) * kQuantum;
  return several_heaps() ? static_cast<u32>(round_up(bytes, kCacheLine)) : bytes;
}

// What is carved at once: so many blocks of so many bytes.
struct Portion {
  u32 bytes, most;
  Lines lines;
};

Portion portion_of(ClassIndex size_class, usize size) {
  const u32 bytes = class_layout(size_class).block_bytes;
  const u32 most = bytes >= kListBytes ? 1 : kListBytes / bytes;
  if (size == 0 || bytes < kCarvedExactly) return {bytes, most, several_heaps() ? Lines::whole : Lines::shared};
  // All blocks of a list have one size: whole lines where those are the same for every size of the class.
  const u32 exact = exact_bytes(size);
  return {exact, exact == round_up(bytes, kCacheLine) && several_heaps() ? most : 1, Lines::shared};
}

// Of blocks that were carved, a list if `most` is over 1: one for the program, the others for heap->blocks.
Block* give(Heap* heap, ClassIndex size_class, Block* carved, u32 most, u32* count) {
  if (carved == nullptr) return nullptr;
  *count = most == 1 ? 1 : measure_list(carved, kMostTaken).count;
  if (COFFER_UNLIKELY(watches_lists())) blocks_taken(heap, size_class, *count);
  if (most == 1) return carved;
  heap->blocks[size_class].set(carved);
  return pop(heap->blocks[size_class]);
}

// Each heap looks for holes in a shard of its own first, so that threads do not all meet at one lock.
Block* take_any_hole(Heap* heap, ClassIndex size_class, const Portion& portion, u32* count) {
  u32 most = portion.most;
  if (COFFER_UNLIKELY(watches_lists())) {
    const u32 limit = unwatched_blocks(heap, size_class);
    if (most > limit) most = limit;
  }
  Block* carved = g_mixed_pool.take(portion.bytes, most, portion.lines, heap->index.get());
  return give(heap, size_class, carved, most, count);
}

// One block of the class from any hole that there is.
Block* take_one_hole(Heap* heap, ClassIndex size_class, usize size) {
  u32 count = 0;
  return give(heap, size_class, g_mixed_pool.take(portion_of(size_class, size).bytes, 1), 1, &count);
}

// Whether the class gets a span of its own: the thread works with it; or it used its last one up, and another adds
// little at the peak, since the process does not grow, or the heap holds eight times as much (relaxed: a threshold).
// The last is for large blocks: small ones find holes.
bool earns_span(Heap* heap, ClassIndex size_class, usize size, const Portion& portion, bool used_up) {
  if (always()) return false;
  if (churn_of(heap, portion.bytes).get() >= kChurn) return true;
  if (!used_up) return false;
  const usize span_bytes = usize{kSliceBytes} << shape_of(size_class).slices_log2;
  return !would_grow() || (size >= kCountedBytes && span_bytes * kSmallPart <= heap->held.load(relaxed));
}

// relaxed: a threshold.
bool is_small() { return !several_heaps() && counters().held.load(relaxed) <= kSmallProcess; }

// What is handed out counts as well as what is freed: of large blocks, so that a class that grows comes to spans of its
// own; in a small process, which leaves blocks in mixed spans that others free when it has grown, and meet at the
// locks.
void count_handed(Heap* heap, usize size, const Portion& portion, u32 handed) {
  if (size < kCountedBytes && !is_small()) return;
  count_churn(heap, portion.bytes, handed);
}

// Whether a block of the size gets new memory in a mixed span.
bool gets_mixed_memory(usize size) {
  return size >= kMixedBytes || (size != 0 && is_small()) || (size >= kCarvedExactly && is_full_of_holes());
}

}  // namespace

Block* take_hole(Heap* heap, ClassIndex size_class, usize size, bool used_up) {
  if (never()) return nullptr;
  if (COFFER_UNLIKELY(is_short())) return take_one_hole(heap, size_class, size);
  const Portion portion = portion_of(size_class, size);
  if (earns_span(heap, size_class, size, portion, used_up)) return nullptr;
  // relaxed: a threshold.
  const bool many = counters().mixed.load(relaxed) >= 2 * kSmallProcess;
  if (!many && !gets_mixed_memory(size) && !always()) return nullptr;
  u32 count = 0;
  Block* block = take_any_hole(heap, size_class, portion, &count);
  if (block != nullptr) count_handed(heap, size, portion, count);
  return block;
}

Block* last_hole(Heap* heap, ClassIndex size_class) {
  if (Block* block = take_one_hole(heap, size_class, 0)) return block;
  if (never()) return nullptr;
  const u32 bytes = portion_of(size_class, 0).bytes;
  u32 count = 0;
  return give(heap, size_class, g_mixed_pool.make(bytes, 1u << ceil_log2(divide_up(bytes, kSliceBytes))), 1, &count);
}

Block* make_hole(Heap* heap, ClassIndex size_class, usize size, bool used_up) {
  if (never()) return nullptr;
  const Portion portion = portion_of(size_class, size);
  if (earns_span(heap, size_class, size, portion, used_up)) {
    churn_of(heap, portion.bytes).set(0);  // it gets its span now
    return nullptr;
  }
  u32 count = 0;
  if (is_fragmented(heap) && convert_some(heap, size_class)) {
    if (Block* block = take_any_hole(heap, size_class, portion, &count)) return block;
  }
  if (!gets_mixed_memory(size)) return nullptr;
  const u32 slices = is_small() && size <= kCarvePage ? 1 : kMixedSpan / kSliceBytes;
  Block* block = give(heap, size_class, g_mixed_pool.make(exact_bytes(size), slices), 1, &count);
  if (block != nullptr) count_handed(heap, size, portion, count);
  return block;
}

void give_back_holes() {
  if (never() || !would_grow()) return;
  // relaxed, all: thresholds; what is live may be more by now.
  const usize mixed = counters().mixed.load(relaxed), live = g_mixed_pool.counted_live();
  const usize free = mixed > live ? mixed - live : 0;
  const usize looked_at = g_looked_at.load(relaxed);
  if (free < looked_at) g_looked_at.store(free, relaxed);
  if (free <= looked_at + kNegligible + much_free()) return;
  if (purge_mixed_pages(kNegligible)) g_looked_at.store(free, relaxed);
}

}  // namespace coffer
