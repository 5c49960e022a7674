// SPDX-License-Identifier: MIT
#include "heap/plain_allocator.hpp"

#include <string.h>

#include "config/config.hpp"
#include "exchange/freed.hpp"
#include "exchange/inside.hpp"
#include "exchange/kept_slices.hpp"
#include "exchange/ownership.hpp"
#include "exchange/registry.hpp"
#include "exchange/seizing.hpp"
#include "exchange/watch.hpp"
#include "guard/guard.hpp"
#include "harden/foreign.hpp"
#include "heap/refill.hpp"
#include "large/large.hpp"
#include "mixed/idle.hpp"
#include "mixed/mixed.hpp"
#include "observe/counters.hpp"
#include "pool/limit.hpp"
#include "pool/slice_pool.hpp"
#include "pool/tails.hpp"
#include "span/purge_span.hpp"
#include "span/shortage.hpp"

namespace coffer {

namespace {

// The record that answers for a block in an arena; reports what is not a block's start.
Span* record_of(const char* call, Arena* arena, void* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  Span* span = first_record(slice_record(arena, address));
  if (COFFER_UNLIKELY(span == nullptr)) report_bad_pointer(call, block);
  if (is_mixed(span)) return span;  // its table says later whether a block starts there
  const bool start = is_large(span) ? address == span->first_block
                                    : is_block_start(span, address) && !(may_be_free(block) && is_freed(span, block));
  if (COFFER_UNLIKELY(!start)) report_bad_pointer(call, block);
  return span;
}

// Usable bytes of a block of a class's span, as most are: without a call. 0: of another kind, or none, or it may be
// free.
COFFER_INLINE usize class_bytes_of(const void* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  const Arena& arena = g_arenas.arenas[0];
  const usize offset = address - arena.base;
  if (COFFER_UNLIKELY(offset >= arena.frontier.load(relaxed))) return 0;  // relaxed: as in arena_of
  const Span* span = arena.spans + offset / kSliceBytes;
  // relaxed, both: as in first_record.
  if (span->use.load(relaxed) == SliceUse::span_rest) span -= span->first_distance.get();
  const bool is_live =
      span->use.load(relaxed) == SliceUse::span && is_block_start(span, address) && !may_be_free(block);
  return COFFER_LIKELY(is_live) ? span->block_bytes.get() : 0;
}

// A block that shrinks below half of what it has moves to a smaller one.
bool fits_in_place(usize have, usize want) { return want <= have && want >= have / 2; }

void* move_block(void* block, usize have, usize want) {
  void* moved = allocate_fast(want);
  if (moved == nullptr) moved = allocate_any(want);
  if (moved == nullptr) return nullptr;
  memcpy(moved, block, have < want ? have : want);
  deallocate(block);
  return moved;
}

// A block that shrinks can always stay as it is.
COFFER_NOINLINE void* move_resized(void* block, usize have, usize size) {
  void* moved = move_block(block, have, size);
  return moved == nullptr && size <= have ? block : moved;
}

// A guarded block is as long as was asked for, so it moves at each change; but one that shrinks can stay as it is.
COFFER_COLD void* reallocate_guarded(void* block, usize size) {
  const usize have = guard::size_of("realloc", block);
  if (have == size) return block;
  void* moved = move_block(block, have, size);
  return moved == nullptr && size < have ? block : moved;
}

// A block that no arena has, both.
COFFER_COLD void* reallocate_foreign(void* block, usize size) {
  if (guard::owns(block)) return reallocate_guarded(block, size);
  if (const harden::Foreign* const foreign = harden::foreign()) return foreign->resize(block, size);
  report_bad_pointer("realloc", block);
}

COFFER_COLD usize usable_foreign(void* block) {
  if (guard::owns(block)) return guard::size_of("malloc_usable_size", block);
  if (const harden::Foreign* const foreign = harden::foreign()) return foreign->usable(block);
  report_bad_pointer("malloc_usable_size", block);
}

usize mixed_size(const char* call, void* block, Span* span) {
  const SlowPath path;
  const usize size = g_mixed_pool.size_of(span, block);
  if (COFFER_UNLIKELY(size == 0)) report_bad_pointer(call, block);
  return size;
}

void* reallocate_mixed(void* block, Span* span, usize size) {
  const usize have = mixed_size("realloc", block, span);
  if (fits_in_place(have, size) || (size > have && size <= kLargestSmall && g_mixed_pool.resize(span, block, size))) {
    sample_resized(block, block, size);
    return block;
  }
  return move_resized(block, have, size);
}

// What allocate_fast does, for the other calls: the first block of the heap's list of the class, if it is aligned so.
// One from a hole need not be.
COFFER_INLINE Block* pop_listed(ClassIndex size_class, usize alignment) {
  // relaxed: as in allocate_fast.
  if (COFFER_UNLIKELY(!g_arenas.arenas[0].fast_sizes.is_above(0))) settle_fork();
  Heap* own = t_heap;
  BlockList& list = enter(own)->blocks[size_class];
  Block* block = list.get();
  const bool serves = block != nullptr && (reinterpret_cast<uptr>(block) & (alignment - 1)) == 0;
  if (COFFER_LIKELY(serves)) pop(list);
  leave(own);
  return serves ? block : nullptr;
}

}  // namespace

void* PlainAllocator::allocate_zeroed(usize size) {
  bool zero = false;
  if (size > kLargestSmall) {
    void* block = allocate_large_block(size, kQuantum, &zero);
    if (block != nullptr && !zero) zero_large(block, size);
    return block;
  }
  const ClassIndex size_class = class_of(size);
  Block* block = pop_listed(size_class, kQuantum);
  if (COFFER_UNLIKELY(block == nullptr)) {
    if (COFFER_UNLIKELY(samples_lists())) {
      if (void* sampled = sample_small(size, size_class, kQuantum)) return memset(sampled, 0, size);
    }
    block = allocate_of_class(size_class, &zero, false);
    if (COFFER_UNLIKELY(block == nullptr)) block = allocate_from_larger(size_class, &zero);
    if (COFFER_UNLIKELY(block == nullptr)) return nullptr;
  }
  if (zero) {
    block->link = nullptr;  // all the rest is zero already
  } else {
    memset(static_cast<void*>(block), 0, size);
  }
  return block;
}

void* PlainAllocator::allocate_aligned(usize size, usize alignment) {
  bool zero = false;
  const ClassIndex size_class = aligned_class(size, alignment);
  if (size_class == kClasses) return allocate_large_block(size, alignment, &zero);
  if (Block* listed = pop_listed(size_class, alignment)) return listed;
  if (COFFER_UNLIKELY(samples_lists())) {
    if (void* sampled = sample_small(size, size_class, alignment)) return sampled;
  }
  // In holes blocks are aligned to a cache line at most.
  Block* block = alignment > kCacheLine ? allocate_in_span(size_class) : allocate_of_class(size_class, &zero, false);
  if (COFFER_UNLIKELY(block != nullptr && reinterpret_cast<uptr>(block) % alignment != 0)) {
    // From a hole that was carved for a smaller size of the class.
    deallocate(block);
    block = allocate_in_span(size_class);
  }
  return COFFER_LIKELY(block != nullptr) ? block : allocate_from_larger(size_class, &zero, alignment);
}

namespace {

COFFER_NOINLINE void* reallocate_other(void* block, usize size) {
  Arena* arena = arena_of(reinterpret_cast<uptr>(block));
  if (COFFER_UNLIKELY(arena == nullptr)) return reallocate_foreign(block, size);
  Span* span = record_of("realloc", arena, block);
  if (is_mixed(span)) return reallocate_mixed(block, span, size);
  if (!is_large(span)) {
    const usize have = span->block_bytes.get();
    return fits_in_place(have, size) ? block : move_resized(block, have, size);
  }
  const usize have = large_usable(span);
  if (size > kLargestSmall) {
    const SlowPath path;
    note_if_heapless(t_heap);
    if (size > have) {
      const Inside inside;
      if (inside.heap() != &g_null_heap) give_back_behind(inside.heap(), span);
    }
    if (void* resized = resize_large(block, span, size)) {
      sample_resized(block, resized, size);
      return resized;
    }
  }
  void* moved = move_block(block, have, size);
  // What the heap gave up for the second block may let the first one grow.
  if (moved == nullptr && size > have && may_fit_later(size)) {
    moved = resize_large(block, span, size);
    if (moved != nullptr) sample_resized(block, moved, size);
    return moved;
  }
  return moved == nullptr && size <= have ? block : moved;  // as move_resized
}

COFFER_NOINLINE usize usable_size_of_other(void* block) {
  Arena* arena = arena_of(reinterpret_cast<uptr>(block));
  if (COFFER_UNLIKELY(arena == nullptr)) return usable_foreign(block);
  Span* span = record_of("malloc_usable_size", arena, block);
  if (is_mixed(span)) return mixed_size("malloc_usable_size", block, span);
  return is_large(span) ? large_usable(span) : span->block_bytes.get();
}

}  // namespace

void* PlainAllocator::reallocate(void* block, usize size) {
  const usize have = class_bytes_of(block);
  if (COFFER_UNLIKELY(have == 0)) return reallocate_other(block, size);
  return COFFER_LIKELY(fits_in_place(have, size)) ? block : move_resized(block, have, size);
}

usize PlainAllocator::usable_size(void* block) {
  const usize bytes = class_bytes_of(block);
  return COFFER_LIKELY(bytes != 0) ? bytes : usable_size_of_other(block);
}

bool PlainAllocator::trim(usize keep) {
  if (!start_process()) return false;
  const SlowPath path;
  note_if_heapless(t_heap);
  steal_from_heaps(Take::pages);  // the thread's own, too
  usize back = purge_all_spans() + purge_mixed_spans();
  back += purge_tails(~usize{0} / 2);
  // relaxed: a figure.
  const usize dirty = counters().dirty.load(relaxed);
  if (dirty > keep) back += purge_free(dirty - keep);
  return back != 0;
}

void PlainAllocator::set_limit(usize bytes) {
  const SlowPath path;
  note_if_heapless(t_heap);
  coffer::set_limit(bytes);
  note_supply();
}
usize PlainAllocator::limit() { return get_limit(); }
// The start reads them, and knows a fork child, where another thread of the parent may have been reading. Without one
// (no memory) there is nothing that a child could be known by.
void PlainAllocator::read_options() {
  if (!start_process()) config::load();
}
COFFER_COLD void PlainAllocator::handle_forks() { coffer::handle_forks(); }

}  // namespace coffer
