// SPDX-License-Identifier: MIT
// The array of blocks in a superblock, flat or punctuated (paper 3, section 3), as arithmetic on offsets.
//
//   flat         | 0 | 1 | 2 | 3 | ...
//   punctuated   | 0 | 1 | .. | run - 1 |s| run | .. | 2 run - 1 |s| ...       s: a spacer of one line
//
// Offsets are from the start of block 0. A block starts with its header word, which is the last word of the line before
// its data. So a spacer is a line of the data's grid: nothing of it is used but its last word, where the header of the
// next run's first block lies.
#pragma once

#include "base/bits.hpp"
#include "papers/cif/size_classes.hpp"

namespace coffer::cif {

// Where spacers go in classes that need them; classes that reach every index as they are have none in any case.
//   punctuated: after each run of at least a cache page (what the paper's CIF does)
//   multiple:   after each run as long as the least common multiple of page and block, when indices would repeat
//   flat:       nowhere. The paper's CIU
enum class ArrayRule : u8 { punctuated, multiple, flat };

inline constexpr u32 kNoSpacers = 0;  // a run of blocks that never ends

// Blocks of a run under the rule.
constexpr u32 run_of(ArrayRule rule, Cache cache, usize block) {
  if (rule == ArrayRule::flat || is_index_friendly(cache, block)) return kNoSpacers;
  if (rule == ArrayRule::multiple) return cache.page / static_cast<u32>(greatest_common_divisor(cache.page, block));
  return static_cast<u32>(divide_up(cache.page, block));
}

struct Array {
  u32 block;  // bytes from one block to the next of its run
  u32 run;    // blocks between spacers; kNoSpacers: there are none
  u32 line;   // bytes of a spacer

  constexpr usize run_bytes() const { return usize{block} * run + line; }

  // Where block n starts.
  constexpr usize offset(usize n) const { return n * block + (run == kNoSpacers ? 0 : n / run * line); }
  // The block that `offset` lies in; of a spacer: the block before it.
  constexpr usize at(usize offset) const {
    if (run == kNoSpacers) return offset / block;
    const usize in_run = offset % run_bytes() / block;
    return offset / run_bytes() * run + (in_run < run ? in_run : run - 1);
  }
  // Blocks that fit into so many bytes.
  constexpr usize count_in(usize bytes) const {
    if (run == kNoSpacers) return bytes / block;
    const usize in_run = bytes % run_bytes() / block;
    return bytes / run_bytes() * run + (in_run < run ? in_run : run);
  }
};

constexpr Array make_array(ArrayRule rule, Cache cache, usize block) {
  return {static_cast<u32>(block), run_of(rule, cache, block), cache.line};
}

}  // namespace coffer::cif
