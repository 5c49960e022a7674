// SPDX-License-Identifier: MIT
#include "exchange/bad_pointer.hpp"

#include "arena/each.hpp"
#include "harden/report.hpp"
#include "large/large.hpp"
#include "mixed/mixed.hpp"

namespace coffer {

namespace {

using harden::BadPointer;

// The large block that an address lies in. Only its first slice is marked, so this looks at all of them: good enough
// for last words.
Span* large_around(const Arena* arena, uptr address) {
  Span* found = nullptr;
  for_each_chunk([&](Arena* in, u32 index, ChunkUse) {
    if (in != arena) return;
    for_each_record(in, index, [&](Span* span, SliceUse use) {
      const usize chunks = usize{span->large_chunks.get()} * kChunkBytes;
      const usize bytes = chunks != 0 ? chunks : large_bytes(span);
      if (use == SliceUse::large && address - slice_address(in, span) < bytes) found = span;
    });
  });
  return found;
}

}  // namespace

void report_bad_pointer(const char* call, void* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  Arena* arena = arena_of(address);
  if (arena == nullptr) harden::bad_pointer(call, block, BadPointer::foreign, 0);
  Span* span = first_record(slice_record(arena, address));
  if (span == nullptr) span = large_around(arena, address);
  if (span == nullptr) {
    // A pointer to memory that never held anything is foreign, not freed. Later slices of a large block that was freed
    // are dirty, or a heap keeps them. relaxed, all: words for a person.
    const Span* slice = slice_record(arena, address);
    const u32 number = static_cast<u32>(slice - arena->spans);
    const Chunk& chunk = arena->chunks[number / kSlicesPerChunk];
    const u64 taken = chunk.use.load(relaxed) == ChunkUse::spans ? ~chunk.free.load(relaxed) : 0;
    const bool held_data = (((chunk.dirty.load(relaxed) | taken) >> (number % kSlicesPerChunk)) & 1) != 0;
    const bool used =
        held_data || slice->remote.load(relaxed) != 0 || slice->absent.get() != 0 || slice->first_distance.get() != 0;
    harden::bad_pointer(call, block, used ? BadPointer::free_span : BadPointer::foreign, 0);
  }
  if (is_large(span)) {
    harden::bad_pointer(call, block, BadPointer::not_a_start, large_usable(span));
  }
  if (is_mixed(span)) {
    // Of a block that was freed the table knows nothing any more; or it is a whole one, which waits on a list.
    const usize bytes = g_mixed_pool.size_around(span, address);
    const bool hole = bytes == 0 && address % kQuantum == 0;
    const bool waits = g_mixed_pool.size_of(span, block) != 0;
    harden::bad_pointer(call, block, hole || waits ? BadPointer::already_free : BadPointer::not_a_start, bytes);
  }
  const BadPointer what = is_block_start(span, address) ? BadPointer::already_free : BadPointer::not_a_start;
  harden::bad_pointer(call, block, what, span->block_bytes.get());
}

void refuse_free(void* block) { report_bad_pointer("free", block); }

void refuse_size(void* block, usize size) {
  const uptr address = reinterpret_cast<uptr>(block);
  Arena* arena = arena_of(address);
  Span* span = first_record(slice_record(arena, address));
  if (span == nullptr) refuse_free(block);  // another thread freed it meanwhile
  // A pointer to something else is the better explanation of a wrong size.
  if (is_mixed(span)) harden::bad_size(block, size, g_mixed_pool.size_of(span, block));
  const bool start = is_large(span) ? address == span->first_block : is_block_start(span, address);
  if (!start) refuse_free(block);
  harden::bad_size(block, size, usable_bytes(span));
}

}  // namespace coffer
