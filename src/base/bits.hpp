// SPDX-License-Identifier: MIT
// Arithmetic on words: powers of two, rounding, checked sums, and runs of bits.
#pragma once

#include "base/base.hpp"

namespace coffer {

constexpr bool is_power_of_two(u64 x) { return x != 0 && (x & (x - 1)) == 0; }
constexpr u64 round_up(u64 x, u64 power) { return (x + power - 1) & ~(power - 1); }
constexpr u64 round_down(u64 x, u64 power) { return x & ~(power - 1); }
constexpr u64 divide_up(u64 x, u64 y) { return (x + y - 1) / y; }

// Index of the lowest and of the highest set bit; x is not 0.
constexpr u32 lowest_bit(u64 x) { return static_cast<u32>(__builtin_ctzll(x)); }
constexpr u32 highest_bit(u64 x) { return 63u - static_cast<u32>(__builtin_clzll(x)); }
#ifdef __POPCNT__
constexpr u32 count_bits(u64 x) { return static_cast<u32>(__builtin_popcountll(x)); }
#else
// The builtin would be a call of the compiler's library. Sums of two bits each, of four, of eight, and of all bytes.
constexpr u32 count_bits(u64 x) {
  x -= (x >> 1) & 0x5555'5555'5555'5555;
  x = (x & 0x3333'3333'3333'3333) + ((x >> 2) & 0x3333'3333'3333'3333);
  x = (x + (x >> 4)) & 0x0f0f'0f0f'0f0f'0f0f;
  return static_cast<u32>((x * 0x0101'0101'0101'0101) >> 56);
}
#endif

// The smallest k with 1 << k >= x; x is not 0.
constexpr u32 ceil_log2(u64 x) { return x == 1 ? 0 : highest_bit(x - 1) + 1; }

// n low bits set, n in 0..64.
constexpr u64 low_mask(u32 n) { return n >= 64 ? ~u64{0} : (u64{1} << n) - 1; }

// false on overflow; *sum is then not to be used.
constexpr bool checked_add(usize a, usize b, usize* sum) { return !__builtin_add_overflow(a, b, sum); }
constexpr bool checked_multiply(usize a, usize b, usize* product) { return !__builtin_mul_overflow(a, b, product); }

// Bit i of the result is set when bits i .. i + n - 1 of `word` are all set; n in 1..64. The fold doubles the length
// that one bit stands for, so it takes log2(n) steps (OHEBS, chapter 6: parallel decomposition, here over one word).
constexpr u64 run_starts(u64 word, u32 n) {
  u32 length = 1;
  while (length < n) {
    const u32 step = length * 2 <= n ? length : n - length;
    word &= word >> step;
    length += step;
  }
  return word;
}

// The positions 0, step, 2 * step ... below 64; step a power of two up to 64.
constexpr u64 aligned_positions(u32 step) {
  u64 mask = 1;
  for (u32 s = step; s < 64; s *= 2) mask |= mask << s;
  return mask;
}

static_assert(count_bits(0) == 0 && count_bits(~u64{0}) == 64 && count_bits(0x8000'0000'0001'0011) == 4);
static_assert(run_starts(0b0111'0110, 2) == 0b0011'0010);
static_assert(run_starts(~u64{0}, 64) == 1 && run_starts(~u64{0} << 1, 64) == 0);
static_assert(run_starts(0b1110, 3) == 0b10 && run_starts(0b11111, 5) == 1);
static_assert(aligned_positions(1) == ~u64{0} && aligned_positions(16) == 0x0001000100010001);
static_assert(aligned_positions(64) == 1 && ceil_log2(5) == 3 && ceil_log2(8) == 3 && ceil_log2(1) == 0);

}  // namespace coffer
