// SPDX-License-Identifier: MIT
#include "exchange/lists.hpp"

#include "exchange/mixed_free.hpp"
#include "exchange/watch.hpp"

namespace coffer {

ListEnd measure_list(Block* list, u32 most) {
  ListEnd end = {0, nullptr};
  for (; list != nullptr && end.count < most; list = next_of(list)) {
    end.last = list;
    ++end.count;
  }
  return end;
}

void take_watched_list(Heap* heap, ClassIndex size_class, Span* span, Block* list, u32 count) {
  const u32 limit = unwatched_blocks(heap, size_class);
  const u32 some = count < limit ? count : limit;
  Block* last = some < count ? measure_list(list, some).last : nullptr;
  // A fork child may find these blocks on neither list: they are lost to it, and never found on both.
  keep_from_malloc(span);
  span->local_free.set(last != nullptr ? next_of(last) : nullptr);
  set_countdown(span, count - some, kNever);
  compiler_fence();
  if (last != nullptr) set_next(last, nullptr);
  compiler_fence();
  heap->blocks[size_class].set(list);
  blocks_taken(heap, size_class, some);
}

void put_back_list(Heap* heap, ClassIndex size_class, Span* span) {
  Block* list = heap->blocks[size_class].get();
  // In a fork child the same list may be in both places (take_local_list).
  const auto [count, last] = list == span->local_free.get() ? ListEnd{} : measure_list(list, span->capacity.get());
  const u32 before = local_count(span);
  heap->blocks[size_class].set(nullptr);
  if (count != 0) {
    set_next(last, span->local_free.get());
    compiler_fence();  // a fork child must not see the list before the link
    span->local_free.set(list);
  }
  keep_from_malloc(span);
  set_countdown(span, before + count, kNever);
  if (COFFER_UNLIKELY(watches_lists())) blocks_returned(heap, size_class, count);
}

void free_list(Heap* heap, ClassIndex size_class) {
  Block* first = heap->blocks[size_class].get();
  if (first == nullptr) return;
  heap->blocks[size_class].set(nullptr);
  const u32 count = measure_list(first, ~u32{0}).count;
  if (COFFER_UNLIKELY(watches_lists())) blocks_returned(heap, size_class, count);
  const uptr address = reinterpret_cast<uptr>(first);
  free_mixed_list(heap, first, count, first_record(slice_record(arena_of(address), address)));
}

}  // namespace coffer
