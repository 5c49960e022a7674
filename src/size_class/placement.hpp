// Where the blocks of a class lie in a span: one table, computed at compile time, that everything else reads.
//
// A span is `slots` slots (a power of two). Blocks start at `first` bytes from the span's start and follow each other
// at `block_bytes`. Later versions of this table may punctuate a class (spacer lines, CIF section 5) or colour it
// (another `first` for each span); the code that cuts and checks blocks reads first, block_bytes and capacity only.
//
// Twins: a request with an alignment above the quantum needs a class whose stride is a multiple of the alignment, in
// spans that start on it. Flat classes serve themselves; a punctuated class would name a flat twin here.
#pragma once

#include <array>

#include "size_class/size_class.hpp"

namespace coffer {

inline constexpr usize kSlotBytes = 32 * 1024;
inline constexpr usize kChunkBytes = 2 * 1024 * 1024;
inline constexpr u32 kSlotsPerChunk = kChunkBytes / kSlotBytes;
inline constexpr usize kCarvePage = 4096;  // a span is cut into blocks by steps of this many bytes
inline constexpr u32 kPagesPerSlot = kSlotBytes / kCarvePage;
inline constexpr u32 kMaxSpanSlots = 8;  // so that a span's pages fit one word
inline constexpr u32 kMinBlocksPerSpan = 8;

static_assert(kSlotsPerChunk == 64, "a chunk's free slots are one word");
static_assert(kMaxSpanSlots * kPagesPerSlot <= 64, "a span's absent pages are one word");

// Exact test whether n is the offset of one of the first `count` blocks of size d, in one multiplication and one
// compare. With m = floor(2^64 / d) + 1 and e = m * d - 2^64 (0 < e <= d): for n = q * d + r,
//   m * n mod 2^64 = q * e + r * m   (no wrap while (q + 1) * e < m).
// r = 0 gives q * e, which is below count * e just when q < count; r > 0 gives at least m, far above. A negative n
// (before the first block) gives 2^64 - (q * e + r * m) > m - (q + 1) * e, also far above. The quotient is the high
// half of m * n. So `m * n < count * e` is the whole test (Lemire's divisibility test, tightened by the count).
struct BlockTest {
  u64 multiplier;
  u64 limit;
};

constexpr BlockTest block_test(u64 block_bytes, u64 count) {
  const u64 multiplier = ~u64{0} / block_bytes + 1;  // block_bytes never divides 2^64 - 1: it is even
  const u64 excess = multiplier * block_bytes;       // mod 2^64; 0 stands for 2^64 + 0: a power of two
  if (excess != 0) return {multiplier, count * excess};
  return {multiplier + 1, count * block_bytes};
}

struct ClassLayout {
  u32 block_bytes;
  u32 capacity;    // blocks in a span
  u32 first;       // offset of the first block
  u32 slots_log2;  // log2 of the span's slots
  BlockTest test;
};

// The fewest slots at which the tail stays within 2 % and the span holds at least kMinBlocksPerSpan blocks.
constexpr u32 choose_slots_log2(usize block_bytes) {
  for (u32 k = 0; (1u << k) < kMaxSpanSlots; ++k) {
    const usize span = kSlotBytes << k;
    if (span / block_bytes < kMinBlocksPerSpan) continue;
    if ((span % block_bytes) * 50 <= span) return k;
  }
  return lowest_bit(kMaxSpanSlots);
}

inline constexpr std::array<ClassLayout, kClasses> kLayout = [] {
  std::array<ClassLayout, kClasses> table{};
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const usize bytes = class_bytes(c);
    const u32 slots_log2 = choose_slots_log2(bytes);
    const u32 capacity = static_cast<u32>((kSlotBytes << slots_log2) / bytes);
    table[c] = {static_cast<u32>(bytes), capacity, 0, slots_log2, block_test(bytes, capacity)};
  }
  return table;
}();

// What a class's span looks like if it has at least `1 << least_slots_log2` slots (option `span`): as the table says,
// or the same blocks in a longer span. The multiplier of the block test stays; its limit is the capacity times the
// excess.
struct SpanShape {
  u32 slots_log2;
  u32 capacity;
  u64 limit;
};

constexpr SpanShape span_shape(ClassIndex size_class, u32 least_slots_log2) {
  const ClassLayout& layout = kLayout[size_class];
  if (COFFER_LIKELY(least_slots_log2 <= layout.slots_log2)) {
    return {layout.slots_log2, layout.capacity, layout.test.limit};
  }
  const u32 bytes = static_cast<u32>(kSlotBytes << least_slots_log2) - layout.first;
  const u32 capacity = bytes / layout.block_bytes;
  return {least_slots_log2, capacity, layout.test.limit / layout.capacity * capacity};
}

// The no-wrap condition of block_test, in every span that an option can make: (N + 1) * e < m.
static_assert([] {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    for (u32 log2 = 0; (1u << log2) <= kMaxSpanSlots; ++log2) {
      const SpanShape shape = span_shape(c, log2);
      const u64 excess = kLayout[c].test.limit / kLayout[c].capacity;
      const u64 used = kLayout[c].first + u64{shape.capacity} * kLayout[c].block_bytes;
      if (shape.slots_log2 < log2 || used > (kSlotBytes << shape.slots_log2)) return false;
      if (shape.limit != excess * shape.capacity) return false;
      if ((shape.capacity + 1) * excess >= kLayout[c].test.multiplier) return false;
    }
  }
  return true;
}());

// The smallest class whose blocks hold `size` bytes and are all aligned to `alignment` (a power of two);
// kClasses if there is none.
constexpr ClassIndex aligned_class(usize size, usize alignment) {
  if (size > kLargestSmall || alignment > kLargestSmall) return kClasses;
  const usize wanted = size > alignment ? size : alignment;
  for (ClassIndex c = compute_class(wanted); c < kClasses; ++c) {
    if (kLayout[c].first == 0 && kLayout[c].block_bytes % alignment == 0) return c;
  }
  return kClasses;
}

static_assert([] {
  for (const ClassLayout& layout : kLayout) {
    const u64 span = kSlotBytes << layout.slots_log2;
    const u64 used = layout.first + u64{layout.capacity} * layout.block_bytes;
    if (used > span || layout.capacity < kMinBlocksPerSpan) return false;
    if ((span - used) * 50 > span && (1u << layout.slots_log2) < kMaxSpanSlots) return false;
    // The no-wrap condition of block_test.
    const u64 excess = layout.test.limit / layout.capacity;
    if (excess == 0 || excess > layout.block_bytes || (layout.capacity + 1) * excess >= layout.test.multiplier) {
      return false;
    }
  }
  return true;
}());
static_assert(aligned_class(1, 4096) == compute_class(4096) && aligned_class(100, 64) == compute_class(128));
static_assert(aligned_class(24, 16) == compute_class(32) && aligned_class(5000, 4096) == compute_class(8192));
static_assert(aligned_class(20000, 32768) == kClasses - 1 && aligned_class(20000, 65536) == kClasses);

}  // namespace coffer
