// SPDX-License-Identifier: MIT
// The arithmetic of blocks in a span: where block n starts, which block an offset belongs to, and whether a block
// starts there.
//
// Blocks follow each other at a distance of `bytes`. In a punctuated span (CIF, section 3) a spacer line follows each
// row of blocks, so that the next row starts one cache index later:
//
//   flat          | 0 | 1 | 2 | 3 | ...
//   punctuated    | 0 | 1 | .. | row - 1 |s| row | row + 1 | .. | 2 row - 1 |s| ...       s: a line without a block
//
// All offsets are from block 0. The number of blocks in a row is a power of two: 64 over a power of two.
#pragma once

#include "base/bits.hpp"
#include "cpu/cpu.hpp"

namespace coffer {

inline constexpr u32 kNoSpacers = 31;  // row_log2 of flat spans: a row that is longer than any span
inline constexpr u32 kLineShift = lowest_bit(kCacheLine);

struct Stride {
  u32 bytes;
  u32 row_log2;

  constexpr bool is_flat() const { return row_log2 == kNoSpacers; }
  constexpr u32 row() const { return u32{1} << row_log2; }
  constexpr usize row_bytes() const { return (usize{bytes} << row_log2) + kCacheLine; }

  constexpr usize offset(usize block) const { return block * bytes + ((block >> row_log2) << kLineShift); }
  // End of block `count` - 1: what `count` blocks take, without a spacer after them.
  constexpr usize length(usize count) const { return count == 0 ? 0 : offset(count - 1) + bytes; }
  // The first block that starts at `offset` or after it.
  constexpr usize at_or_after(usize offset) const {
    if (is_flat()) return divide_up(offset, bytes);
    const usize in_row = divide_up(offset % row_bytes(), bytes);
    return (offset / row_bytes() << row_log2) + (in_row < row() ? in_row : row());
  }
  // The last block that starts at `offset` or before it. Of a block's start: its number.
  constexpr usize at_or_before(usize offset) const {
    if (is_flat()) return offset / bytes;
    const usize in_row = offset % row_bytes() / bytes;
    return (offset / row_bytes() << row_log2) + (in_row < row() ? in_row : row() - 1);
  }
  // Blocks that fit in so many bytes.
  constexpr usize count_in(usize length) const {
    if (is_flat()) return length / bytes;
    const usize in_row = length % row_bytes() / bytes;
    return (length / row_bytes() << row_log2) + (in_row < row() ? in_row : row());
  }
};

// Whether n is the offset of a block. The test is exact, by one multiplication, one rotation and one comparison:
//
//   rotate_right(n * multiplier, 6) < limit          (all modulo 2^64; 6 is log2 of a line)
//
// Flat, with bytes = 2^a * c, c odd. Let v be the inverse of c modulo 2^64.
//   a <= 6: the multiplier 2^(6 - a) * v takes block i to 64 * i, and the rotation makes it i. The limit is the number
//     of blocks. Conversely, an offset that goes below the limit is 2^a * c * i modulo 2^(58 + a), with i below it.
//     (Lemire's divisibility test.)
//   a > 6: the multiplier is v * (2^(64 - a) + 1), which is odd. Bits below a line stay, and end above the limit. In
//     lines, block i is 2^(a - 6) * c * i and goes to 2^(a - 6) * i, since the other term is a multiple of 2^58. The
//     limit is that of the number of blocks. Conversely, an offset that goes to y below the limit is c * y * (1 -
//     2^(64 - a)) modulo 2^58. So if y is no multiple of 2^(a - 6), the offset is 2^49 lines or more away.
//
// Punctuated, with bytes = 64 * s, and rows of k blocks: block i starts at line floor(i * (s + 1/k)). This is a Beatty
// sequence, because k * s + 1 lines hold k blocks and a spacer. Line u is in it if and only if -u * k modulo (k * s +
// 1) is below k. The multiplier is -F, with F = floor(2^58 * k / (k * s + 1)) made odd, so that bits below a line end
// above the limit. Line u goes to that remainder times 2^58 / (k * s + 1), plus u times less than 2, which is below
// the distance of two remainders. The limit is F. The test knows no end: it holds for lines from -s - 1 (exclusive) up
// to those of a span. So the end of the span must be where the next block would start, and less than a block and a
// spacer may come before block 0. placement.hpp lays punctuated spans out in this way, and its tests check every byte
// of each.
struct BlockTest {
  u64 multiplier;
  u64 limit;
};

COFFER_INLINE constexpr bool passes(u64 offset, u64 multiplier, u64 limit) {
  const u64 product = offset * multiplier;
  return ((product >> kLineShift) | (product << (64 - kLineShift))) < limit;
}

constexpr u64 inverse(u64 odd) {
  u64 x = odd;  // right in the lowest three bits; each step doubles them
  for (u32 i = 0; i < 5; ++i) x *= 2 - odd * x;
  return x;
}

// What the limit grows by with each block of a flat span; 0: the limit does not depend on their number.
constexpr u64 limit_step(Stride stride) {
  if (!stride.is_flat()) return 0;
  const u32 a = lowest_bit(stride.bytes);
  return a <= kLineShift ? 1 : u64{1} << (a - kLineShift);
}

constexpr BlockTest block_test(Stride stride, u64 count) {
  if (stride.is_flat()) {
    const u32 a = lowest_bit(stride.bytes);
    const u64 v = inverse(stride.bytes >> a);
    const u64 multiplier = a <= kLineShift ? v << (kLineShift - a) : v * ((u64{1} << (64 - a)) + 1);
    return {multiplier, count * limit_step(stride)};
  }
  const u64 lines = (u64{stride.bytes} >> kLineShift << stride.row_log2) + 1;
  const u64 share = ((u64{1} << (64 - kLineShift)) / lines << stride.row_log2) +
                    (((u64{1} << (64 - kLineShift)) % lines) << stride.row_log2) / lines;
  const u64 odd = (share & 1) != 0 ? share : share - 1;
  return {0 - odd, odd};
}

}  // namespace coffer
