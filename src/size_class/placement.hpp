// SPDX-License-Identifier: MIT
// Where the blocks of a class lie in a span: one table, computed at compile time, that everything else reads.
//
// A span is `slices` slices (a power of two). Blocks start at `first` bytes from the span's start, plus a colour (some
// lines) that each span chooses for itself, and follow each other as stride.hpp says. placement_table.hpp has the
// choice for each class, and what it wastes.
//
// Twins: a request with an alignment above a line needs a flat class whose stride is a multiple of the alignment, in
// spans that start on it, without colours. Those from kSizeClasses to kShapes are that.
#pragma once

#include <array>

#include "size_class/placement_table.hpp"
#include "size_class/size_class.hpp"
#include "size_class/stride.hpp"

namespace coffer {

inline constexpr usize kSliceBytes = 32 * 1024;
inline constexpr usize kChunkBytes = 2 * 1024 * 1024;
inline constexpr u32 kSlicesPerChunk = kChunkBytes / kSliceBytes;
inline constexpr usize kCarvePage = 4096;  // a span is carved into blocks by steps of this many bytes
inline constexpr u32 kPagesPerSlice = kSliceBytes / kCarvePage;
inline constexpr u32 kMaxSpanSlices = 8;  // so that a span's pages fit one word
// Blocks of a span at least: a span of few has an event at nearly each free. Of blocks over a slice, as many as fit the
// longest span.
constexpr u32 least_blocks(usize block_bytes) { return block_bytes <= kSliceBytes ? 8 : 4; }

static_assert(kSlicesPerChunk == 64, "a chunk's free slices are one word");
static_assert(kMaxSpanSlices * kPagesPerSlice <= 64, "a span's absent pages are one word");
static_assert(kSliceBytes % kCachePage == 0, "a span's start is the same cache index in every slice");

struct ClassLayout {
  u32 block_bytes;
  u32 row_log2;     // stride.hpp; kNoSpacers: flat
  u32 capacity;     // blocks in a span
  u32 first;        // offset of the first block at colour 0
  u32 slices_log2;  // log2 of the span's slices
  u32 colours;      // lines by which the first block may be moved, and one
  u32 colour_step;  // from the colour of one span to that of the next
  BlockTest test;

  constexpr Stride stride() const { return {block_bytes, row_log2}; }
};

constexpr ClassLayout lay_out(PlacementChoice choice) {
  const Stride stride{choice.block_bytes, choice.row_log2};
  const usize span = kSliceBytes << choice.slices_log2;
  const usize capacity = stride.count_in(span);
  const usize tail = span - stride.length(capacity);
  // What a flat span does not need at its end are its colours. A punctuated span has its tail in front: where it ends
  // the next block would start, as the block test wants it.
  const usize lines = tail / kCacheLine + 1;
  const bool flat = stride.is_flat();
  return {stride.bytes,
          stride.row_log2,
          static_cast<u32>(capacity),
          static_cast<u32>(flat ? 0 : tail),
          choice.slices_log2,
          !flat ? 1 : static_cast<u32>(lines < kCacheSets ? lines : kCacheSets),
          choice.colour_step,
          block_test(stride, capacity)};
}

// The fewest slices at which the tail of a flat span stays within 2 % and it holds least_blocks of them.
constexpr u8 choose_slices_log2(usize block_bytes) {
  for (u8 k = 0; (1u << k) < kMaxSpanSlices; ++k) {
    const usize span = kSliceBytes << k;
    if (span / block_bytes < least_blocks(block_bytes)) continue;
    if ((span % block_bytes) * 50 <= span) return k;
  }
  return static_cast<u8>(lowest_bit(kMaxSpanSlices));
}

// Every class flat, as it would be without thought for cache indices; and so are the twins in any case.
constexpr ClassLayout lay_out_flat(ClassIndex size_class) {
  const usize bytes = class_bytes(size_class);
  ClassLayout layout = lay_out({static_cast<u32>(bytes), kNoSpacers, choose_slices_log2(bytes), 1});
  if (is_twin(size_class)) layout.colours = 1;
  return layout;
}

using LayoutTable = std::array<ClassLayout, kClasses>;

inline constexpr LayoutTable kFlatLayout = [] {
  LayoutTable table{};
  for (ClassIndex c = 0; c < kClasses; ++c) table[c] = lay_out_flat(c);
  return table;
}();

inline constexpr LayoutTable kLayout = [] {
  LayoutTable table = kFlatLayout;
  for (ClassIndex c = 0; c < kClasses; ++c) {
    if (!is_twin(c)) table[c] = lay_out(kPlacementTable[shape_class(c)]);
  }
  return table;
}();

// With the option align:all, whose layout a class has: blocks of a line and more are whole lines long, so that all
// start on one. Requests keep their class, and classes that look alike their own spans: the way of malloc knows nothing
// of it.
constexpr ClassIndex class_on_lines(ClassIndex size_class) {
  const usize bytes = class_bytes(size_class);
  if (is_twin(size_class) || bytes < kCacheLine) return size_class;
  return compute_class(round_up(bytes, kCacheLine)) + (size_class - shape_class(size_class));
}

static_assert([] {
  for (ClassIndex c = compute_class(kCacheLine); c < kClasses; ++c) {
    if (class_bytes(c) < kCacheLine) continue;
    if (class_bytes(class_on_lines(c)) % kCacheLine != 0 || class_bytes(class_on_lines(c)) < class_bytes(c))
      return false;
    if (class_bytes(c) % kCacheLine == 0 && class_on_lines(c) != c) return false;
  }
  return true;
}());

// What a class's span looks like if it has at least `1 << least_slices_log2` slices (option `span`): as the table says,
// or the same blocks in a longer span.
constexpr ClassLayout span_shape(const ClassLayout& layout, u32 least_slices_log2) {
  if (COFFER_LIKELY(least_slices_log2 <= layout.slices_log2)) return layout;
  ClassLayout longer = lay_out({layout.block_bytes, static_cast<u8>(layout.row_log2),
                                static_cast<u8>(least_slices_log2), static_cast<u8>(layout.colour_step)});
  // Colours are only fewer: a twin has none, and a step that visits all of them visits all of some other number only if
  // it has no divisor in common with that.
  if (layout.colours == 1) longer.colours = 1;
  if (longer.colours != layout.colours) longer.colour_step = 1;
  return longer;
}

static_assert([] {
  for (const LayoutTable* table : {&kLayout, &kFlatLayout}) {
    for (ClassIndex c = 0; c < kClasses; ++c) {
      const ClassLayout& layout = (*table)[c];
      if (layout.block_bytes < class_bytes(c) || layout.block_bytes % kQuantum != 0) return false;
      for (u32 log2 = 0; (1u << log2) <= kMaxSpanSlices; ++log2) {
        const ClassLayout shape = span_shape(layout, log2);
        const usize used = shape.first + (shape.colours - 1) * kCacheLine + shape.stride().length(shape.capacity);
        if (shape.slices_log2 < log2 || used > (kSliceBytes << shape.slices_log2)) return false;
        if (shape.first >= kSliceBytes || shape.first % kCacheLine != 0) return false;
        if (shape.capacity < least_blocks(class_bytes(c)) - 1) return false;
        // What the block test of a punctuated span relies on.
        if (!shape.stride().is_flat() && used != (kSliceBytes << shape.slices_log2)) return false;
        if (!shape.stride().is_flat() && shape.first >= shape.block_bytes + kCacheLine) return false;
      }
    }
  }
  return true;
}());

// The smallest class whose blocks hold `size` bytes and are all aligned to `alignment` (a power of two);
// kClasses if there is none.
constexpr bool is_aligned_class(ClassIndex size_class, usize alignment) {
  // All stand on lines as far as their stride lets them.
  return (class_bytes(size_class) & (alignment - 1)) == 0 && (alignment <= kCacheLine || is_twin(size_class));
}
constexpr ClassIndex aligned_class(usize size, usize alignment) {
  if (size > kLargestSmall || alignment > kLargestSmall) return kClasses;
  // The steps of both ladders are powers of two. So of a multiple of the alignment there is a class, or the steps there
  // are longer, and multiples of it themselves.
  const usize wanted = round_up(size != 0 ? size : 1, alignment);
  return alignment <= kCacheLine ? class_of(wanted) : compute_twin(wanted);
}

static_assert(class_bytes(aligned_class(1, 4096)) == 4096 && aligned_class(100, 64) == compute_class(128));
static_assert(aligned_class(24, 16) == compute_class(32) && class_bytes(aligned_class(5000, 4096)) == 8192);
static_assert(aligned_class(20000, 65536) == kShapes - 1 && aligned_class(20000, 131072) == kClasses);

}  // namespace coffer
