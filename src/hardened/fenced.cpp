// SPDX-License-Identifier: MIT
#include "hardened/fenced.hpp"

#include <string.h>

#include "arena/find.hpp"
#include "exchange/bad_pointer.hpp"
#include "exchange/inside.hpp"
#include "exchange/watch.hpp"
#include "harden/report.hpp"
#include "hardened/allocator.hpp"
#include "hardened/report.hpp"
#include "hardened/rest.hpp"
#include "heap/plain_allocator.hpp"
#include "heap/refill.hpp"
#include "observe/sampling.hpp"
#include "os/os.hpp"

namespace coffer::hardened {

namespace {

// Each has up to four mappings, where fences are mappings; the kernel allows 65,530. The rest has no fences.
constexpr u32 kMostFenced = 8192;
constexpr u32 kMostPagesInFront = 4;

Atomic<u32> g_fenced;
Atomic<u64> g_placed;

char* start_of(const Span* span) { return reinterpret_cast<char*>(span->first_block); }
Span* span_of(const void* block) {
  return slice_record(arena_of(reinterpret_cast<uptr>(block)), reinterpret_cast<uptr>(block));
}
// Whole pages of the heap's block.
char* end_of(const Span* span) {
  return reinterpret_cast<char*>(round_down(span->first_block + large_usable(span), os::page_size()));
}

void clear(char* from, usize bytes) {
  if (!os::purge(from, bytes)) memset(from, 0, bytes);
}

// Closes a part of the block. Nothing of what lies in `bytes` bytes from `used` on stays. What the kernel does not
// close stays open.
void close(Span* span, char* from, char* to, char* used = nullptr, usize bytes = 0) {
  if (to <= from) return;
  const usize length = static_cast<usize>(to - from);
  if (os::mark_closed(from, length)) return span->capacity.set(span->capacity.get() | kByMarkers);
  if (bytes != 0) clear(used, bytes);
  span->capacity.set(span->capacity.get() | kByRights);
  os::forbid_access(from, length);
}

bool open(const Span* span, char* from, usize bytes) {
  const u32 how = span->capacity.get();
  if ((how & kByMarkers) != 0 && !os::unmark_closed(from, bytes)) return false;
  if ((how & kByRights) != 0 && !os::allow_access(from, bytes)) return false;
  os::keep_locked(from, bytes);
  return true;
}

// What the program has begins at a multiple of it. Over half a slice: nothing is in front.
usize step_of(usize alignment) { return alignment > os::page_size() ? alignment : os::page_size(); }

struct Place {
  usize front, alignment;
};
// room: bytes that there may be in front. What the program has begins in the first slice, whose record tells of it.
Place place_of(usize alignment, usize room) {
  const usize step = step_of(alignment);
  if (step > kSliceBytes / 2) return {0, alignment};
  // relaxed: each number is used once.
  const u64 chance = mix_bits(g_arenas.arenas[0].link_key.load(relaxed), g_placed.fetch_add(1, relaxed));
  const usize most_bytes = room < kSliceBytes / 2 ? room : kSliceBytes / 2;
  const usize most = most_bytes / step < kMostPagesInFront ? most_bytes / step : kMostPagesInFront;
  return {step * (1 + chance % most), kSliceBytes};
}

void* begin_fenced(Span* span, usize front, usize bytes) {
  span->block_bytes.set(static_cast<u32>(front));
  span->multiplier = bytes;
  change_fence(span, Fence::live);
  return reinterpret_cast<void*>(fenced_start(span));
}

// A block that has rested, for the `bytes` of the program's and what is to be behind them. Not while somebody counts.
void* reuse(usize bytes, usize behind, usize alignment) {
  if (watches_lists() || alignment > kSliceBytes / 2) return nullptr;
  const usize wanted = step_of(alignment) + bytes + behind;
  char* const block = static_cast<char*>(take_rested(wanted, 2 * wanted));
  if (block == nullptr) return nullptr;
  const Place place = place_of(alignment, fenced_length(block) - bytes - behind);
  char* const start = block + place.front;
  Span* const span = span_of(block);
  if (!open(span, start, bytes)) {
    rest_large(block);
    return nullptr;
  }
  // Only markers make all of it zero, also what was in front or behind.
  if ((span->capacity.get() & kByRights) != 0) clear(start, bytes);
  return begin_fenced(span, place.front, bytes);
}

}  // namespace

NewFenced allocate_fenced(usize size, usize alignment, usize room) {
  const usize page = os::page_size();
  const usize bytes = round_up(size != 0 ? size : 1, page);
  if (void* const block = reuse(bytes, page + room, alignment)) return {block, nullptr, 0};
  const Place place = place_of(alignment, kSliceBytes / 2);
  const usize wanted = place.front + bytes + page;
  bool zero = false;
  void* block = allocate_large_block(wanted + room, place.alignment, &zero);
  if (block == nullptr && (end_all_rests() || room != 0)) block = allocate_large_block(wanted, place.alignment, &zero);
  if (block == nullptr) return {};
  Arena* const arena = arena_of(reinterpret_cast<uptr>(block));
  if (arena == nullptr) return {nullptr, block, wanted + room};
  Span* const span = slice_record(arena, reinterpret_cast<uptr>(block));
  set_fence(span, Fence::live);
  char* const start = static_cast<char*>(begin_fenced(span, place.front, bytes));
  if (!zero) clear(start, bytes);
  // relaxed: a bound.
  if (g_fenced.fetch_add(1, relaxed) < kMostFenced) {
    close(span, start_of(span), start);
    close(span, start + bytes, end_of(span));
  }
  return {start, nullptr, 0};
}

usize size_of_fenced(const char* call, void* block, const Span* span) {
  if (reinterpret_cast<uptr>(block) != fenced_start(span)) report_bad_pointer(call, block);
  if (fence_of(span) != Fence::live) report_freed(call, block, fenced_bytes(span));
  return fenced_bytes(span);
}

void release_fenced(void* block, Span* span, usize given) {
  const usize bytes = size_of_fenced("free", block, span);
  if (given != kNoSize && round_up(given != 0 ? given : 1, os::page_size()) != bytes) {
    harden::bad_size(block, given, bytes);
  }
  char* const start = start_of(span);
  char* const end = end_of(span);
  forget_sample(start);
  change_fence(span, Fence::resting);
  close(span, start, end, static_cast<char*>(block), bytes);
  rest_large(start);
}

usize fenced_length(const void* heaps_block) {
  const Span* const span = span_of(heaps_block);
  return static_cast<usize>(end_of(span) - start_of(span));
}

bool end_fenced(void* heaps_block) {
  if (!open(span_of(heaps_block), static_cast<char*>(heaps_block), fenced_length(heaps_block))) return false;
  g_fenced.fetch_sub(1, relaxed);  // relaxed: a bound
  PlainAllocator::deallocate(heaps_block);
  return true;
}

void* resize_fenced(void* block, Span* span, usize size) {
  const usize have = size_of_fenced("realloc", block, span);
  const usize wanted = round_up(size, os::page_size());
  if (size > PTRDIFF_MAX / 2 || wanted < have / 2) return nullptr;
  if (wanted == have) return block;
  char* const start = static_cast<char*>(block);
  const usize page = os::page_size();
  if (static_cast<usize>(end_of(span) - start) < wanted + page) return nullptr;
  if (wanted > have) {
    if (!open(span, start + have, wanted - have)) return nullptr;
  } else {
    close(span, start + wanted, start + have, start + wanted, have - wanted);
  }
  span->multiplier = wanted;
  return block;
}

}  // namespace coffer::hardened
