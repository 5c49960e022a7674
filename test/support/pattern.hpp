// SPDX-License-Identifier: MIT
// Known contents for blocks. A block's pattern follows from its seed and from the offset alone, so that a block which
// grew or moved still has the pattern of its old size.
//
// Blocks up to 512 bytes carry it everywhere; larger ones in their first and last 128 bytes and in one word of every
// 4 KiB, or 16 KiB over 1 MiB: enough to see lost pages or a neighbour's overrun, cheap enough for millions of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace coffer::test {

inline constexpr std::size_t kPatternGood = ~std::size_t{0};

namespace pattern_detail {

inline constexpr std::size_t kWholeUpTo = 512;
inline constexpr std::size_t kEdge = 128;

inline std::size_t step_of(std::size_t size) { return size <= (std::size_t{1} << 20) ? 4096 : 16384; }

// Unaligned on purpose: the last word of a block ends where the block ends.
inline std::uint64_t word_at(std::uint64_t seed, std::size_t offset) { return (seed + offset) * 0x9e3779b97f4a7c15u; }

// Where the sampled word of a step lies: spread over the step's pages and cache lines.
inline std::size_t sample_in_step(std::size_t number, std::size_t step) {
  return number * step + (number * 6856 + 1024) % (step - 8) / 8 * 8;
}

// Calls visit(offset, bytes) for each sampled piece of a block of `size` bytes; stops when it returns false.
template <class Visit>
void each_sample(std::size_t size, Visit visit) {
  const std::size_t head = size <= kWholeUpTo ? size : kEdge;
  std::size_t offset = 0;
  for (; offset + 8 <= head; offset += 8) {
    if (!visit(offset, std::size_t{8})) return;
  }
  if (offset < head && !visit(offset, head - offset)) return;
  if (size <= kWholeUpTo) return;
  const std::size_t tail = size - kEdge;
  const std::size_t step = step_of(size);
  for (std::size_t number = 0, at = sample_in_step(0, step); at + 8 <= tail; at = sample_in_step(++number, step)) {
    if (at >= head && !visit(at, std::size_t{8})) return;
  }
  for (std::size_t at = tail; at < size; at += 8) {
    if (!visit(at, std::size_t{8})) return;
  }
}

}  // namespace pattern_detail

inline void fill_pattern(void* block, std::size_t size, std::uint64_t seed) {
  unsigned char* const bytes = static_cast<unsigned char*>(block);
  pattern_detail::each_sample(size, [&](std::size_t offset, std::size_t length) {
    const std::uint64_t word = pattern_detail::word_at(seed, offset);
    std::memcpy(bytes + offset, &word, length);
    return true;
  });
}

// The block was filled at `size` bytes; only its first `kept` bytes count now. Offset of the first piece that is
// wrong, or kPatternGood.
inline std::size_t find_damage(const void* block, std::size_t size, std::size_t kept, std::uint64_t seed) {
  const unsigned char* const bytes = static_cast<const unsigned char*>(block);
  std::size_t damage = kPatternGood;
  pattern_detail::each_sample(size, [&](std::size_t offset, std::size_t length) {
    if (offset >= kept) return true;  // tail samples may lie before a later step's; go on
    if (offset + length > kept) length = kept - offset;
    const std::uint64_t word = pattern_detail::word_at(seed, offset);
    if (std::memcmp(bytes + offset, &word, length) == 0) return true;
    damage = offset;
    return false;
  });
  return damage;
}

// Offset of the first byte that is not zero, or kPatternGood.
inline std::size_t find_nonzero(const void* block, std::size_t size) {
  const unsigned char* const bytes = static_cast<const unsigned char*>(block);
  std::size_t offset = 0;
  for (; offset + 64 <= size; offset += 64) {
    std::uint64_t words[8];
    std::memcpy(words, bytes + offset, sizeof words);
    std::uint64_t any = 0;
    for (std::uint64_t word : words) any |= word;
    if (any != 0) break;
  }
  for (; offset < size; ++offset) {
    if (bytes[offset] != 0) return offset;
  }
  return kPatternGood;
}

}  // namespace coffer::test
