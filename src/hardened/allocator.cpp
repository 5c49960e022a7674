// SPDX-License-Identifier: MIT
#include "hardened/allocator.hpp"

#include <string.h>

#include "exchange/bad_pointer.hpp"
#include "exchange/registry.hpp"
#include "exchange/watch.hpp"
#include "guard/guard.hpp"
#include "harden/foreign.hpp"
#include "harden/report.hpp"
#include "hardened/canary.hpp"
#include "hardened/fenced.hpp"
#include "hardened/nothing.hpp"
#include "hardened/report.hpp"
#include "hardened/rest.hpp"
#include "heap/heap.hpp"
#include "heap/refill.hpp"
#include "mixed/mixed.hpp"
#include "observe/statistics.hpp"

namespace coffer::hardened {

namespace {

// The heap's block that the program's block is: `have` bytes of it. span: nullptr: a guarded sample.
struct Held {
  usize have;
  Span* span;
};

// Of a block that starts in an arena. Reports what does not start one.
Held held_of(const char* call, void* block, Arena* arena) {
  const uptr address = reinterpret_cast<uptr>(block);
  Span* const span = first_record(slice_record(arena, address));
  if (COFFER_UNLIKELY(span == nullptr)) report_bad_pointer(call, block);
  if (COFFER_LIKELY(span->use.load(relaxed) == SliceUse::span)) {  // relaxed: as first_record
    if (COFFER_UNLIKELY(!is_block_start(span, address))) report_bad_pointer(call, block);
    return {span->block_bytes.get(), span};
  }
  if (is_mixed(span)) {
    const SlowPath path;
    const usize have = g_mixed_pool.size_of(span, block);
    if (have < kLeastBlock) report_bad_pointer(call, block);
    return {have, span};
  }
  if (fence_of(span) == Fence::none && address != span->first_block) report_bad_pointer(call, block);
  return {large_usable(span), span};
}

bool is_fenced(const Held& held) {
  return held.span != nullptr && is_large(held.span) && fence_of(held.span) != Fence::none;
}

// The canary is not there.
[[noreturn]] COFFER_COLD void report_not_live(const char* call, void* block, usize have) {
  if (read_canary(block, have).found == Found::busy) report_freed(call, block, have);
  report_broken(call, block, have);
}
// What was asked for, by the canary.
usize checked_size(const char* call, void* block, const Held& held) {
  usize size;
  if (COFFER_UNLIKELY(!is_live(block, held.have, mac_of(block), &size))) report_not_live(call, block, held.have);
  return size;
}

// The heap gave `block` for a request of `size` bytes, from no span of a class.
COFFER_NOINLINE void* begin_elsewhere(void* block, usize size, Span* span) {
  const usize have = PlainAllocator::usable_size(block);
  memset(block, 0, have);
  if (span != nullptr && is_large(span)) set_fence(span, Fence::none);
  write_canary(block, have, size, mac_of(block));
  return block;
}

// The same from anywhere.
COFFER_INLINE void* begin(void* block, usize size) {
  const uptr address = reinterpret_cast<uptr>(block);
  Arena* const arena = arena_of(address);
  Span* const span = COFFER_LIKELY(arena != nullptr) ? first_record(slice_record(arena, address)) : nullptr;
  // relaxed: as first_record.
  if (COFFER_UNLIKELY(span == nullptr || span->use.load(relaxed) != SliceUse::span)) {
    return begin_elsewhere(block, size, span);
  }
  const usize have = span->block_bytes.get();
  if (COFFER_UNLIKELY(!begin_block(block, have, size))) report_touched(block, have);
  if (COFFER_UNLIKELY(t_heap->rest.get() == nullptr)) own_rest();  // the fast path's
  return block;
}

void* allocate_fenced_or_plain(usize size, usize alignment, usize room = 0) {
  const NewFenced made = allocate_fenced(size, alignment, room);
  if (made.plain == nullptr) return made.block;
  // A sample with guards of its own, all of it zero.
  write_canary(made.plain, made.plain_bytes, size, mac_of(made.plain));
  return made.plain;
}

void release_sample(void* block, usize given) {
  if (const usize have = guard::size_if_live(block)) {
    const usize size = checked_size("free", block, {have, nullptr});
    if (given != kNoSize && given != size) harden::bad_size(block, given, size);
  }
  PlainAllocator::deallocate(block);
}

COFFER_COLD void release_foreign(void* block, usize given) {
  if (block == nullptr) return;
  if (is_nothing(block)) return release_nothing(block, given);
  if (guard::owns(block)) return release_sample(block, given);
  PlainAllocator::deallocate(block);  // the C library's, or a report
}

// From anywhere, by any thread.
COFFER_NOINLINE void release_elsewhere(void* block, usize given) {
  Arena* const arena = arena_of(reinterpret_cast<uptr>(block));
  if (arena == nullptr) return release_foreign(block, given);
  const Held held = held_of("free", block, arena);
  if (is_fenced(held)) return release_fenced(block, held.span, given);
  const usize size = checked_size("free", block, held);
  if (given != kNoSize && given != size) harden::bad_size(block, given, size);
  const bool of_class = held.span->use.load(relaxed) == SliceUse::span;  // relaxed: as first_record
  if (!of_class) forget_sample(block);
  write_freed(block, held.have, mac_of(block));
  rest_anyhow(block, of_class ? held.span->size_class.get() : Resting::kNoClass, held.have);
}

COFFER_COLD void refuse_pointer(void* block) { report_bad_pointer("free", block); }
COFFER_COLD void refuse_block(void* block, usize have) { report_not_live("free", block, have); }
COFFER_COLD void refuse_given(void* block, usize given, usize size) { harden::bad_size(block, given, size); }

// Of a class whose blocks are not cleared by a row of stores.
COFFER_NOINLINE void release_long(Rest* rest, void* block, usize given, const Sized* sized) {
  const usize have = sized->block_bytes();
  const u64 mac = mac_of(block, rest->key);
  usize size;
  if (COFFER_UNLIKELY(!is_live(block, have, mac, &size))) return refuse_block(block, have);
  if (COFFER_UNLIKELY(given != size) && given != kNoSize) return refuse_given(block, given, size);
  write_freed(block, have, mac);
  if (COFFER_LIKELY(is_quick(have))) return rest_quick<false>(rest, block, sized->stack());
  rest_block(rest, block, static_cast<u32>(sized - g_sized.classes), have);
}

// The slice's record names another heap than the thread's, or none. Of a span of a class: as deallocate_as.
COFFER_NOINLINE void release_not_own(void* block, usize given, Span* span, Rest* rest) {
  SliceUse use = span->use.load(relaxed);  // relaxed, both: as first_record
  if (use == SliceUse::span_rest) {
    span -= span->first_distance.get();
    use = span->use.load(relaxed);
  }
  if (COFFER_UNLIKELY(use != SliceUse::span) || COFFER_UNLIKELY(rest == nullptr))
    return release_elsewhere(block, given);
  if (COFFER_UNLIKELY(!is_block_start(span, reinterpret_cast<uptr>(block)))) return refuse_pointer(block);
  const Sized& sized = g_sized.classes[span->size_class.get()];
  const usize have = sized.block_bytes();
  if (!is_quick(have) || span->owner.is(t_heap)) return release_long(rest, block, given, &sized);
  const u64 mac = mac_of(block, rest->key);
  usize size;
  const bool live = have <= kMostShort ? is_live_short(block, have, mac, &size) : is_live(block, have, mac, &size);
  if (COFFER_UNLIKELY(!live)) return refuse_block(block, have);
  if (COFFER_UNLIKELY(given != size) && given != kNoSize) return refuse_given(block, given, size);
  write_freed(block, have, mac);
  rest_foreign(rest, block, have);
}

void move_content(void* moved, void* block, usize have, usize size) {
  memcpy(moved, block, have < size ? have : size);
  hardened::deallocate(block);
}

void* move_block(void* block, usize have, usize size, bool pointers = false) {
  void* const moved = pointers ? allocate_pointers(size) : hardened::allocate(size);
  if (moved != nullptr) move_content(moved, block, have, size);
  return moved;
}

COFFER_COLD void* reallocate_foreign(void* block, usize size) {
  if (is_nothing(block)) {
    check_nothing("realloc", block);
    return move_block(block, 0, size);
  }
  if (!guard::owns(block)) return PlainAllocator::reallocate(block, size);
  const usize have = checked_size("realloc", block, {guard::size_of("realloc", block), nullptr});
  return have == size ? block : move_block(block, have, size);
}

COFFER_COLD usize usable_foreign(void* block) {
  constexpr const char* kCall = "malloc_usable_size";
  if (is_nothing(block)) {
    check_nothing(kCall, block);
    return 0;
  }
  if (!guard::owns(block)) return PlainAllocator::usable_size(block);
  return checked_size(kCall, block, {guard::size_of(kCall, block), nullptr});
}

}  // namespace

void* allocate(usize size) {
  if (COFFER_UNLIKELY(size == 0)) {
    if (void* const block = allocate_nothing()) return block;
  }
  const usize wanted = bytes_for(size);
  if (COFFER_UNLIKELY(wanted > kLargestSmall)) return allocate_fenced_or_plain(size, kQuantum);
  if (Rest* const rest = t_heap->rest.get(); rest != nullptr && size < kMostQuick) {
    look_at_watches(rest);
    if (size - 1 < rest->fast_sizes && fill_stack(rest, quick_class(size))) {
      return hardened::allocate_fast(size);
    }
  }
  void* block = coffer::allocate_fast(wanted);
  if (block == nullptr) block = PlainAllocator::allocate(wanted);
  if (COFFER_UNLIKELY(block == nullptr)) {
    if (!end_all_rests() || (block = PlainAllocator::allocate(wanted)) == nullptr) return nullptr;
  }
  return begin(block, size);
}

void* allocate_pointers(usize size) {
  const usize wanted = bytes_for(size);
  if (size == 0 || wanted > kLargestSmall) return allocate(size);
  const ClassIndex size_class = pointer_class(class_of(wanted));
  if (Rest* const rest = t_heap->rest.get(); rest != nullptr && size - 1 < rest->fast_sizes) {
    if (void* const block = allocate_quick(rest, g_sized.classes[size_class], size)) return block;
  }
  const auto take = [=]() -> Block* {
    bool zero = false;
    Block* const block = allocate_of_class(size_class, &zero, false);
    return COFFER_LIKELY(block != nullptr) ? block : allocate_from_larger(size_class, &zero);
  };
  Block* block = take();
  if (COFFER_UNLIKELY(block == nullptr) && end_all_rests()) block = take();
  return block != nullptr ? begin(block, size) : nullptr;
}

void* allocate_aligned(usize size, usize alignment) {
  const usize wanted = bytes_for(size);
  if (wanted > kLargestSmall || aligned_class(wanted, alignment) == kClasses) {
    return allocate_fenced_or_plain(size, alignment);
  }
  void* block = PlainAllocator::allocate_aligned(wanted, alignment);
  if (block == nullptr && end_all_rests()) block = PlainAllocator::allocate_aligned(wanted, alignment);
  return block != nullptr ? begin(block, size) : nullptr;
}

namespace {

// Without a stack frame: what needs one ends the call somewhere else.
template <bool kSized>
COFFER_INLINE void deallocate_as(void* block, usize given) {
  Arena& arena = g_arenas.arenas[0];
  const usize offset = reinterpret_cast<uptr>(block) - arena.base;
  // relaxed: see arena_of.
  if (COFFER_UNLIKELY(!arena.fast_frontier.is_above(offset))) return release_elsewhere(block, given);
  Span* const span = arena.spans + offset / kSliceBytes;
  Heap* const heap = t_heap;
  Rest* const rest = heap->rest.get();
  // relaxed: equal only if this thread wrote it, or who had the heap before it. Only spans of a class have an owner;
  // the null heap owns none.
  if (COFFER_UNLIKELY(!span->owner.is(heap))) return release_not_own(block, given, span, rest);
  if (COFFER_UNLIKELY(rest == nullptr)) return release_elsewhere(block, given);
  if (COFFER_UNLIKELY(!is_block_start(span, reinterpret_cast<uptr>(block)))) return refuse_pointer(block);
  const Sized& sized = g_sized.classes[span->size_class.get()];
  const usize have = sized.block_bytes();
  if (COFFER_UNLIKELY(have > kMostShort)) return release_long(rest, block, given, &sized);
  const u64 mac = mac_of(block, rest->key);
  usize size;
  if (COFFER_UNLIKELY(!is_live_short(block, have, mac, &size))) return refuse_block(block, have);
  if constexpr (kSized) {
    if (COFFER_UNLIKELY(given != size)) return refuse_given(block, given, size);
  }
  write_freed_short(block, have, mac);
  rest_quick<false>(rest, block, sized.stack());
}

}  // namespace

void deallocate(void* block) { deallocate_as<false>(block, kNoSize); }
void deallocate_sized(void* block, usize given) { deallocate_as<true>(block, given); }

void* reallocate(void* block, usize size) {
  Arena* const arena = arena_of(reinterpret_cast<uptr>(block));
  if (COFFER_UNLIKELY(arena == nullptr)) return reallocate_foreign(block, size);
  const Held held = held_of("realloc", block, arena);
  if (is_fenced(held)) {
    void* const resized = resize_fenced(block, held.span, size);
    if (resized != nullptr) return resized;
    const usize have = fenced_bytes(held.span);
    // What grows once mostly grows again, and each move copies it.
    const usize room = size > have && bytes_for(size) > kLargestSmall ? round_up(size / 2, kQuantum) : 0;
    void* const moved = room != 0 ? allocate_fenced_or_plain(size, kQuantum, room) : hardened::allocate(size);
    if (moved != nullptr) move_content(moved, block, have, size);
    return moved == nullptr && size <= have ? block : moved;  // a block that shrinks can always stay as it is
  }
  const usize before = checked_size("realloc", block, held);
  const bool fits = size <= held.have - kCanaryBytes;
  if (!fits || bytes_for(size) < held.have / 2) {
    const bool of_class = held.span->use.load(relaxed) == SliceUse::span;  // relaxed: as first_record
    void* const moved = move_block(block, before, size, of_class && held.span->size_class.get() >= kShapes);
    if (moved != nullptr || !fits) return moved;
  }
  const u64 mac = mac_of(block);
  begin_change(block, held.have, mac);
  const usize kept = before < size ? before : size;
  memset(static_cast<char*>(block) + kept, 0, held.have - kCanaryBytes - kept);
  write_canary(block, held.have, size, mac);
  return block;
}

usize usable_size(void* block) {
  constexpr const char* kCall = "malloc_usable_size";
  Arena* const arena = arena_of(reinterpret_cast<uptr>(block));
  if (COFFER_UNLIKELY(arena == nullptr)) return usable_foreign(block);
  const Held held = held_of(kCall, block, arena);
  return is_fenced(held) ? size_of_fenced(kCall, block, held.span) : checked_size(kCall, block, held);
}

}  // namespace coffer::hardened

namespace coffer {

namespace {

void without_rests(Figures& figures) {
  const auto less = [](auto& figure, usize by) { figure -= by < figure ? by : figure; };
  const hardened::Resters rests = hardened::sum_of_rests();
  less(figures.live, rests.bytes);
  less(figures.large, rests.large_bytes);
  less(figures.large_blocks, rests.large_blocks);
}

}  // namespace

void Allocator::statistics(Statistics& statistics) {
  PlainAllocator::statistics(statistics);
  without_rests(statistics);
}

void Allocator::figures(Figures& figures) {
  PlainAllocator::figures(figures);
  without_rests(figures);
}

bool Allocator::trim(usize keep) {
  hardened::end_all_rests();
  return PlainAllocator::trim(keep);
}

}  // namespace coffer
