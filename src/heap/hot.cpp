// SPDX-License-Identifier: MIT
#include "heap/hot.hpp"

#include "heap/ownership.hpp"
#include "heap/watching.hpp"
#include "span/emptiness.hpp"

namespace coffer {

namespace {

constexpr u32 kMostPatience = 15;
// heap->comeback: 0, or kGone once the class gave up an empty span, and one more each time it then asked again.
constexpr u8 kGone = 1;
constexpr u8 kRelaxPage = 4;   // from here on its hot span may be relaxed, if it has a page
constexpr u8 kRelaxSpan = 24;  // or more, while the heap has no more than kRelaxedBytes of them
constexpr u32 kRelaxedBytes = 64 * 1024;

// The least number of local frees until the hot span is looked at again for whether it is empty. It doubles with each
// look that found it not empty (heap->patience counts these).
u32 patient(const Heap* heap, ClassIndex size_class) { return (1u << heap->patience[size_class].get()) - 1; }

// Bytes that the blocks cut so far may have touched; of small ones the last, which may reach into the next page, is not
// counted.
u32 touched(const Span* span) {
  const usize block = span->block_bytes.get();
  const usize bytes = (span->cut.get() - (block <= kCarvePage / 4 ? 1 : 0)) * block;
  return static_cast<u32>(round_up(bytes, kCarvePage));
}

bool relax(Heap* heap, ClassIndex size_class, const Span* span) {
  const u8 times = heap->comeback[size_class].get();
  if (times < kRelaxPage) return false;
  const u32 bytes = touched(span);
  if (bytes > kCarvePage) {
    if (times < kRelaxSpan || heap->relaxed_bytes.get() + bytes > kRelaxedBytes) return false;
    heap->relaxed_bytes.set(heap->relaxed_bytes.get() + bytes);
  }
  heap->relaxed_class[size_class].set(static_cast<u8>(bytes / kCarvePage));
  return true;
}

void stop_relaxing(Heap* heap, ClassIndex size_class) {
  const u32 bytes = heap->relaxed_class[size_class].get() * u32{kCarvePage};
  if (bytes > kCarvePage) heap->relaxed_bytes.set(heap->relaxed_bytes.get() - bytes);
  heap->relaxed_class[size_class].set(0);
}

// Puts `count` blocks, the heap's list from its first to `last`, before the hot span's local list. Inside the bracket.
void put_before_local(Heap* heap, ClassIndex size_class, Span* span, Block* last, u32 count) {
  Block* list = heap->blocks[size_class].get();
  const u32 before = local_count(span);
  heap->blocks[size_class].set(nullptr);
  heap->zero[size_class].set(0);
  if (count != 0) {
    last->next = span->local_free.get();
    compiler_fence();  // a fork child must not see the list before the link
    span->local_free.set(list);
  }
  set_countdown(span, before + count, kNever);
  if (COFFER_UNLIKELY(watches_lists())) blocks_returned(heap, size_class, count);
}

// The block `steps` links further.
COFFER_INLINE Block* nth(Block* block, u32 steps) {
  for (; steps >= 8; steps -= 8) block = block->next->next->next->next->next->next->next->next;
  for (; steps > 0; --steps) block = block->next;
  return block;
}

void settle_hot(Heap* heap, Span* span) {
  const ClassIndex size_class = span->size_class.get();
  const auto [listed, last] = measure_list(heap->blocks[size_class].get(), span->capacity.get());
  const u32 local = local_count(span);
  // acquire: pairs with push_remote; if all blocks are free the span may end here.
  const u32 free = listed + local + load_word(span, acquire).count();
  const u32 cut = span->cut.get();
  if (free < cut) {
    const u32 live = cut - free;
    const u32 wait = patient(heap, size_class);
    if (heap->patience[size_class].get() < kMostPatience) {
      heap->patience[size_class].set(static_cast<u8>(heap->patience[size_class].get() + 1));
    }
    return set_countdown(span, local, live > wait ? live : wait);
  }
  if (relax(heap, size_class, span)) return set_countdown(span, local, kNever);
  heap->patience[size_class].set(0);
  heap->hot[size_class].set(nullptr);
  put_before_local(heap, size_class, span, last, listed);
  place(heap, span, SpanState::hot);
}

}  // namespace

ListEnd measure_list(Block* list, u32 most) {
  ListEnd end = {0, nullptr};
  for (; list != nullptr && end.count < most; list = list->next) {
    end.last = list;
    ++end.count;
  }
  return end;
}

namespace {

// Takes the first `some` blocks, at least one, of the `count` on the span's local list.
void take_first(Heap* heap, ClassIndex size_class, Span* span, Block* list, u32 count, u32 some, u32 frees) {
  if (count <= some) return take_whole_list(heap, size_class, span, list, frees);
  heap->zero[size_class].set(0);
  Block* last = nth(list, some - 1);
  // A fork child may find these blocks on neither list: they are lost to it, and never found on both.
  span->local_free.set(last->next);
  set_countdown(span, count - some, frees);
  compiler_fence();
  last->next = nullptr;
  compiler_fence();
  heap->blocks[size_class].set(list);
}

// Blocks to take of a span of which so many are live.
u32 count_to_take(const Heap* heap, ClassIndex size_class, u32 live) {
  u32 some = list_limit(size_class);
  if (some > kLeastList) {
    u32 wanted = live * kListPerLive;
    if (wanted < kLeastList) wanted = kLeastList;
    if (wanted < some && wanted < patient(heap, size_class)) wanted = patient(heap, size_class);
    if (some > wanted) some = wanted;
  }
  return some;
}

}  // namespace

void take_watched(Heap* heap, ClassIndex size_class, Span* span, Block* list) {
  const u32 count = local_count(span);
  u32 frees = 0;
  u32 some = may_take_all(heap, size_class, span, &frees) ? count : 0;
  if (some == 0) {
    const u32 live = span->cut.get() - count;
    some = count_to_take(heap, size_class, live);
    frees = live != 0 ? live : 1;
  }
  if (some > count) some = count;
  const u32 limit = unwatched_blocks(heap, size_class);
  if (some > limit) some = limit;
  take_first(heap, size_class, span, list, count, some, frees);
  blocks_taken(heap, size_class, some);
}

void take_some(Heap* heap, ClassIndex size_class, Span* span, Block* list) {
  const u32 count = local_count(span);
  const u32 live = span->cut.get() - count;
  take_first(heap, size_class, span, list, count, count_to_take(heap, size_class, live), live != 0 ? live : 1);
}

void watch_hot(Heap* heap, ClassIndex size_class, Span* span, u32 listed) {
  const u32 local = local_count(span);
  const u32 free = listed + local;
  const u32 live = span->cut.get() > free ? span->cut.get() - free : 1;
  set_countdown(span, local, heap->relaxed_class[size_class].get() != 0 ? kNever : live);
}

void hot_grew(Heap* heap, ClassIndex size_class) {
  heap->patience[size_class].set(0);
  if (heap->relaxed_class[size_class].get() != 0) stop_relaxing(heap, size_class);
}

void forget_hot(Heap* heap, ClassIndex size_class) {
  heap->hot[size_class].set(nullptr);
  if (heap->relaxed_class[size_class].get() != 0) stop_relaxing(heap, size_class);
}

void hot_event(Heap* heap, Span* span) {
  // A span that was claimed while it was hot is dropped at the next refill, and comes by mail.
  if (heap->hot[span->size_class.get()].get() != span) return set_countdown(span, local_count(span), kNever);
  settle_hot(heap, span);
}

bool comes_back(const Heap* heap, ClassIndex size_class) { return heap->comeback[size_class].get() > kGone; }

void class_is_gone(Heap* heap, ClassIndex size_class) {
  if (heap->comeback[size_class].get() == 0) heap->comeback[size_class].set(kGone);
}

void class_came_back(Heap* heap, ClassIndex size_class) {
  const u8 times = heap->comeback[size_class].get();
  if (times != 0 && times < kRelaxSpan) heap->comeback[size_class].set(static_cast<u8>(times + 1));
}

void merge_heap_list(Heap* heap, ClassIndex size_class, Span* span) {
  Block* list = heap->blocks[size_class].get();
  // In a fork child the same list may be in both places (take_whole_list).
  const ListEnd end = list == span->local_free.get() ? ListEnd{} : measure_list(list, span->capacity.get());
  put_before_local(heap, size_class, span, end.last, end.count);
}

}  // namespace coffer
