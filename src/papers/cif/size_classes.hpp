// SPDX-License-Identifier: MIT
// CIF's size classes (paper 3, sections 2 and 3, appendix B), as pure functions of a cache's shape.
//
// A class is the size of a block with its header word. From a cache line on, all classes are whole lines, for blocks
// start on lines; below a line there are powers of two from 16 on under every rule. (The paper's machine has 16-byte
// lines, so there the smallest block is a line. On 64-byte lines four blocks of 16 lie on one, two of 32: their
// addresses take every line in turn, so they reach all indices by themselves.)
#pragma once

#include "base/bits.hpp"
#include "cpu/cpu.hpp"

namespace coffer::cif {

inline constexpr usize kSmallestBlock = 16;
inline constexpr usize kHeaderWord = sizeof(void*);  // before each block's data: where its superblock is

// What of a cache placement depends on: bytes of a line, and bytes after which indices repeat (appendix A's page).
struct Cache {
  u32 line;
  u32 page;

  constexpr u32 indices() const { return page / line; }
};

inline constexpr Cache kThisCache{static_cast<u32>(kCacheLine), static_cast<u32>(kCachePage)};
inline constexpr Cache kPaperCache{16, 2048};  // the UltraSPARC-T2's first-level data cache, appendix A

constexpr u64 greatest_common_divisor(u64 a, u64 b) {
  while (b != 0) {
    const u64 rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// Indices on which blocks that follow each other without spacers can start, in a long array: the page over
// gcd(page, block), and never more than there are (appendix B).
constexpr u32 reached_indices(Cache cache, usize block) {
  const u64 common = greatest_common_divisor(cache.page, block);
  return cache.page / static_cast<u32>(common > cache.line ? common : cache.line);
}
constexpr bool is_index_friendly(Cache cache, usize block) { return reached_indices(cache, block) == cache.indices(); }

// Appendix B's change of one size: if gcd(P, S) > L then S += L. `block` is whole lines.
constexpr usize index_aware(Cache cache, usize block) {
  return greatest_common_divisor(cache.page, block) > cache.line ? block + cache.line : block;
}

// powers:   powers of two, the paper's choice for comparisons.
// halves:   these and what lies half way: the finer classes that the paper would give a product. The least common
//           multiple of such a class and the page is longer than either (section 3's 768 bytes).
// odd:      (2N + 1) lines, appendix B: friendly without spacers.
// adjusted: powers of two, each through index_aware.
enum class ClassRule : u8 { powers, halves, odd, adjusted };

class SizeClasses {
 public:
  constexpr SizeClasses(ClassRule rule, Cache cache) : rule_(rule), cache_(cache) {}

  // The class whose blocks, header included, have at least `block` bytes.
  constexpr u32 of_block(usize block) const {
    if (block <= kSmallestBlock) return 0;
    if (block <= cache_.line / 2) return ceil_log2(block) - kSmallestLog2;
    return below_line() + of_lines((block + cache_.line - 1) >> lowest_bit(cache_.line));
  }
  constexpr u32 of_request(usize size) const { return of_block(size + kHeaderWord); }

  // Bytes of a block of the class, its header word included.
  constexpr usize bytes(u32 size_class) const {
    if (size_class < below_line()) return kSmallestBlock << size_class;
    return lines(size_class - below_line()) * cache_.line;
  }
  // Classes whose blocks have at most `most` bytes.
  constexpr u32 count(usize most) const {
    const u32 next = of_block(most);
    return bytes(next) <= most ? next + 1 : next;
  }

 private:
  static constexpr u32 kSmallestLog2 = lowest_bit(kSmallestBlock);

  constexpr u32 below_line() const { return lowest_bit(cache_.line) - kSmallestLog2; }

  // Of the classes of whole lines: the one that holds so many, and what it has.
  constexpr u32 of_lines(usize lines) const {
    switch (rule_) {
      case ClassRule::odd:
        return static_cast<u32>(lines / 2);
      case ClassRule::halves: {
        if (lines == 1) return 0;
        const u32 log2 = ceil_log2(lines);
        const bool half = log2 >= 2 && lines <= usize{3} << (log2 - 2);
        return 2 * log2 - (half ? 2 : 1);
      }
      case ClassRule::adjusted: {
        const u32 log2 = ceil_log2(lines);
        return log2 > 0 && adjusted(log2 - 1) >= lines ? log2 - 1 : log2;
      }
      default:
        return ceil_log2(lines);
    }
  }
  constexpr usize lines(u32 number) const {
    switch (rule_) {
      case ClassRule::odd:
        return 2 * usize{number} + 1;
      case ClassRule::halves:
        if (number == 0) return 1;
        return number % 2 == 1 ? usize{1} << (number + 1) / 2 : usize{3} << (number / 2 - 1);
      case ClassRule::adjusted:
        return adjusted(number);
      default:
        return usize{1} << number;
    }
  }
  constexpr usize adjusted(u32 log2) const { return index_aware(cache_, usize{cache_.line} << log2) / cache_.line; }

  ClassRule rule_;
  Cache cache_;
};

}  // namespace coffer::cif
