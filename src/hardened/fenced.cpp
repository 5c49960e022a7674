// SPDX-License-Identifier: MIT
#include "hardened/fenced.hpp"

#include <string.h>

#include "arena/find.hpp"
#include "exchange/bad_pointer.hpp"
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

// Each has up to four mappings; the kernel allows 65,530. The rest has no fences.
constexpr u32 kMostFenced = 8192;
constexpr u32 kMostPagesInFront = 4;

Atomic<u32> g_fenced;
Atomic<u64> g_placed;

char* start_of(const Span* span) { return reinterpret_cast<char*>(span->first_block); }
// Whole pages of the heap's block.
char* end_of(const Span* span) {
  return reinterpret_cast<char*>(round_down(span->first_block + large_usable(span), os::page_size()));
}

void close(char* from, char* to) {
  if (to > from) os::forbid_access(from, static_cast<usize>(to - from));
}

void clear(char* from, usize bytes) {
  if (!os::purge(from, bytes)) memset(from, 0, bytes);
}

struct Place {
  usize front, alignment;
};
Place place_of(usize alignment) {
  const usize page = os::page_size();
  const usize step = alignment > page ? alignment : page;
  if (step > kSlotBytes / 2) return {0, alignment};
  // relaxed: each number is used once.
  const u64 chance = mix_bits(g_arenas.arenas[0].link_key.load(relaxed), g_placed.fetch_add(1, relaxed));
  const usize most = kSlotBytes / 2 / step < kMostPagesInFront ? kSlotBytes / 2 / step : kMostPagesInFront;
  return {step * (1 + chance % most), kSlotBytes};
}

}  // namespace

NewFenced allocate_fenced(usize size, usize alignment, bool zeroed, usize room) {
  const usize page = os::page_size();
  const Place place = place_of(alignment);
  const usize bytes = round_up(size != 0 ? size : 1, page);
  const usize wanted = place.front + bytes + page;
  bool zero = false;
  void* block = allocate_large_block(wanted + room, place.alignment, &zero);
  if (block == nullptr && (end_all_rests() || room != 0)) block = allocate_large_block(wanted, place.alignment, &zero);
  if (block == nullptr) return {};
  Arena* const arena = arena_of(reinterpret_cast<uptr>(block));
  if (arena == nullptr) return {nullptr, block, wanted + room};
  Span* const span = slot_record(arena, reinterpret_cast<uptr>(block));
  span->block_bytes.set(static_cast<u32>(place.front));
  span->multiplier = bytes;
  set_fence(span, Fence::live);
  char* const start = reinterpret_cast<char*>(fenced_start(span));
  // The heap takes for dirty what this layer gave back.
  if (zeroed && !zero) clear(start, bytes);
  // relaxed: a bound.
  if (g_fenced.fetch_add(1, relaxed) < kMostFenced) {
    close(start_of(span), start);
    close(start + bytes, end_of(span));
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
  set_fence(span, Fence::resting);
  // What cannot be closed stays open; it rests all the same.
  clear(static_cast<char*>(block), bytes);
  close(start, end);
  rest_large(start, static_cast<usize>(end - start));
}

bool end_fenced(void* heaps_block, usize bytes) {
  if (!os::allow_access(heaps_block, bytes)) return false;
  g_fenced.fetch_sub(1, relaxed);  // relaxed: a bound
  os::keep_locked(heaps_block, bytes);
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
    if (!os::allow_access(start + have, wanted - have)) return nullptr;
    os::keep_locked(start + have, wanted - have);
  } else {
    clear(start + wanted, have - wanted);
    close(start + wanted, start + have);
  }
  span->multiplier = wanted;
  return block;
}

}  // namespace coffer::hardened
