// SPDX-License-Identifier: MIT
#include "trial/clean.hpp"

#include <sys/mman.h>

#include "arena/each.hpp"
#include "base/bits.hpp"
#include "span/span.hpp"
#include "support/check.hpp"
#include "support/pattern.hpp"

namespace coffer::trial {

namespace {

constexpr u32 kPagesPerChunk = kChunkBytes / kCarvePage;  // of the machine: os/fake has others

// The pages of a chunk that are there: all others are zero, and reading them would take as long as all that was done.
class Present {
 public:
  explicit Present(uptr chunk) : chunk_(chunk) {
    const int failed = mincore(reinterpret_cast<void*>(chunk), kChunkBytes, there_);
    REQUIRE(failed == 0, "mincore cannot tell which pages of the chunk at %#zx are there", static_cast<usize>(chunk));
  }
  void expect_zero(u32 page, const char* what) const {
    if ((there_[page] & 1) == 0) return;
    const uptr at = chunk_ + usize{page} * kCarvePage;
    const usize found = test::find_nonzero(reinterpret_cast<void*>(at), kCarvePage);
    REQUIRE(found == test::kPatternGood, "%s is not zero at %#zx", what, static_cast<usize>(at + found));
  }
  void expect_zero(u64 pages, u32 first_slot, const char* what) const {
    for (; pages != 0; pages &= pages - 1) expect_zero(first_slot * kPagesPerSlice + lowest_bit(pages), what);
  }

 private:
  uptr chunk_;
  unsigned char there_[kPagesPerChunk];
};

// Chunks that are taken.
void expect_clean_slots_are_zero() {
  for_each_chunk([](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans) return;
    const Present present(chunk_address(arena, index));
    // relaxed, all: everything rests.
    const Chunk& chunk = arena->chunks[index];
    for (u64 clean = chunk.free.load(relaxed) & ~chunk.dirty.load(relaxed); clean != 0; clean &= clean - 1)
      present.expect_zero(low_mask(kPagesPerSlice), lowest_bit(clean), "a free slot that counts as clean");
    for_each_record(arena, index, [&](const Span* span, SliceUse slice_use) {
      const u32 slot = static_cast<u32>(span - arena->spans) % kSlicesPerChunk;
      if (slice_use == SliceUse::span) present.expect_zero(untouched_pages(span), slot, "a page that no block touched");
      if (slice_use != SliceUse::mixed) return;
      const u64 all = low_mask(span->slices.get() * kPagesPerSlice);
      present.expect_zero(span->absent.get() & all, slot, "an absent page of a mixed span");
    });
  });
}

// Chunks that nobody has, and that are writable.
void expect_free_chunks_are_zero() {
  // relaxed, all: everything rests.
  for (u32 a = 0; a < g_arenas.count.load(relaxed); ++a) {
    const Arena& arena = g_arenas.arenas[a];
    for (u32 index = 0; index < arena.highest_chunk.load(relaxed); ++index) {
      const Group& group = arena.groups[index / kChunksPerGroup];
      const u64 free = group.committed.get() & ~group.taken.get();
      if ((free >> index % kChunksPerGroup & 1) == 0) continue;
      const Present present(chunk_address(&arena, index));
      for (u64 clean = ~arena.chunks[index].dirty.load(relaxed); clean != 0; clean &= clean - 1)
        present.expect_zero(low_mask(kPagesPerSlice), lowest_bit(clean), "a clean slot of a free chunk");
    }
  }
}

}  // namespace

void expect_clean_is_zero() {
  expect_clean_slots_are_zero();
  expect_free_chunks_are_zero();
}

void expect_room_is_known() {
  for_each_chunk([](Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::spans) return;
    // relaxed, all: everything rests.
    const u64 free = arena->chunks[index].free.load(relaxed);
    const u32 group = index / kChunksPerGroup;
    for (u32 order = 0; order < kOrders; ++order) {
      const u32 slots = 1u << order;
      if ((run_starts(free, slots) & aligned_positions(slots)) == 0) break;
      const u64 chunks = arena->groups[group].room[order].load(relaxed);
      const u64 groups = arena->summary[group / kSummaryRatio * kOrders + order].load(relaxed);
      REQUIRE((chunks >> (index % kChunksPerGroup) & 1) != 0 && (groups >> (group % kSummaryRatio) & 1) != 0,
              "%u free slots in chunk %u are not in the map of room", slots, index);
    }
  });
}

}  // namespace coffer::trial
