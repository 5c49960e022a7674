// SPDX-License-Identifier: MIT
// The hot span of a class: taking its blocks for malloc, and noticing that the owner's frees emptied it.
//
// malloc pops from heap->blocks[class] and counts nothing, so a hot span's owner does not know how many blocks of it
// are live. It knows when it took its list: live = blocks cut - blocks on its lists. From then on the span cannot be
// empty before as many local frees: that is the countdown. When it ends, hot_event walks the heap's list and knows
// exactly. What that may cost is bounded by three rules:
//
//   - A short list: from a span that is mostly free only some blocks are taken (take_some).
//   - Patience: each time the span turns out not to be empty, the next look comes twice as late. A page newly cut ends
//     that: the class grows, and what grows may shrink.
//   - Relaxed classes: a hot span that was emptied again and again within a page (a loop of malloc and free), or very
//     often within a few, is no longer watched until it grows.
//
// An emptied span is ended at once (scalloc's eager return, paper 2 section 3.2). If its class comes back, it is kept
// as a reusable span next time, where the heap's slack counts it and others can take it from a heap that sleeps.
#pragma once

#include "heap/bracket.hpp"
#include "heap/registry.hpp"
#include "observe/counters.hpp"
#include "span/emptiness.hpp"

namespace coffer {

// Whether the heap's hot span of the class, inside its bracket, still is that: others may have taken it.
inline bool still_hot(const Bracket& bracket, const Span* span, ClassIndex size_class) {
  if (!bracket.owned() || span->size_class.get() != size_class) return false;
  const SpanState state = load_word(span, relaxed).state();  // relaxed: the owner's own transitions, or a claim
  return state == SpanState::hot || state == SpanState::claimed;
}

// In this order, so that a fork child finds the list in one place or, the same head, in both.
COFFER_INLINE void take_whole_list(Heap* heap, ClassIndex size_class, Span* span, Block* list, u32 frees) {
  heap->zero[size_class].set(0);
  heap->blocks[size_class].set(list);
  compiler_fence();
  span->local_free.set(nullptr);
  set_countdown(span, 0, frees);
  compiler_fence();
}

// Blocks that may be taken for each one that is live: the walk costs a free as much.
inline constexpr u32 kListPerLive = 8;
// Crowded (span/emptiness.hpp), a list has at most so many bytes, or one block: what is on it nobody can take from a
// heap that sleeps. More where all such lists, kListsOfHeap a heap, are at most 1 / kShareOfLists of what is held.
inline constexpr u32 kCrowdedListBytes = 2048;
inline constexpr u32 kListsOfHeap = 32;
inline constexpr u32 kShareOfLists = 64;
constexpr u32 list_shift(u32 heaps, usize held) {
  const usize share = held / (usize{kCrowdedListBytes} * kListsOfHeap * kShareOfLists) >> ceil_log2(heaps);
  return share < 2 ? 0 : highest_bit(share);
}
static_assert(list_shift(16, usize{64} << 20) == 0 && list_shift(64, usize{4} << 30) == 4);
struct ListLimits {
  u8 blocks[kClasses];
};
constexpr ListLimits compute_list_limits() {
  ListLimits limits{};
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const u32 blocks = kCrowdedListBytes / kLayout[c].block_bytes;
    limits.blocks[c] = static_cast<u8>(blocks != 0 ? blocks : 1);
  }
  return limits;
}
inline constexpr ListLimits kListLimits = compute_list_limits();  // a table, for a division takes longer than the walk
static_assert(kListLimits.blocks[0] == 128 && kListLimits.blocks[kClasses - 1] == 1);
inline u32 list_limit(ClassIndex size_class) {
  if (!is_crowded()) return kNever;
  // relaxed: a guess.
  return u32{kListLimits.blocks[size_class]} << list_shift(attached_heaps() | 1, counters().held.load(relaxed));
}

inline constexpr u32 kLeastList = 8;  // blocks taken from an empty span at first
// The same for the first `count` blocks of the span just cut, if they are all that is cut of it.
inline u32 cut_limit(const Span* span, u32 count) {
  const u32 limit = list_limit(span->size_class.get());
  return span->cut.get() == count && limit > kLeastList ? kLeastList : limit;
}

// Makes the hot span's local list `list`, or its first blocks, the heap's. Inside the bracket.
void take_some(Heap* heap, ClassIndex size_class, Span* span, Block* list);
// Whether all of the list may be taken, and if so, the countdown that follows.
COFFER_INLINE bool may_take_all(const Heap* heap, ClassIndex size_class, const Span* span, u32* frees) {
  if (heap->relaxed_class[size_class].get() != 0) {
    *frees = kNever;
    return true;
  }
  const u32 count = local_count(span);
  const u32 live = span->cut.get() - count;  // with what others freed
  *frees = live;
  return COFFER_LIKELY(count <= live * kListPerLive && !is_crowded());
}
// The same while what heaps take is counted.
void take_watched(Heap* heap, ClassIndex size_class, Span* span, Block* list);
inline void take_local(Heap* heap, ClassIndex size_class, Span* span, Block* list) {
  if (COFFER_UNLIKELY(watches_lists())) return take_watched(heap, size_class, span, list);
  u32 frees = 0;
  if (may_take_all(heap, size_class, span, &frees)) return take_whole_list(heap, size_class, span, list, frees);
  take_some(heap, size_class, span, list);
}
// After the heap got `listed` blocks of the hot span: sets the countdown.
void watch_hot(Heap* heap, ClassIndex size_class, Span* span, u32 listed);
// A page was cut: the class grows.
void hot_grew(Heap* heap, ClassIndex size_class);
// The class has no hot span any more.
void forget_hot(Heap* heap, ClassIndex size_class);

// The countdown of a hot span ended. Inside its bracket.
void hot_event(Heap* heap, Span* span);
// An empty span of the class is given up, or would be.
bool comes_back(const Heap* heap, ClassIndex size_class);
void class_is_gone(Heap* heap, ClassIndex size_class);
// The class asks for a span: notes whether it came back after it was given up.
void class_came_back(Heap* heap, ClassIndex size_class);

struct ListEnd {
  u32 count;
  Block* last;  // nullptr: there is no list
};
// Length of a list, and its last block. A list that a program's error made a ring ends after `most` blocks.
ListEnd measure_list(Block* list, u32 most);
// Puts the blocks of the heap's list back on the hot span's local list. It walks that list. Inside the bracket.
void merge_heap_list(Heap* heap, ClassIndex size_class, Span* span);

}  // namespace coffer
