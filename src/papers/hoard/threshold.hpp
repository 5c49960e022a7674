// SPDX-License-Identifier: MIT
// The emptiness threshold (paper 1, section 3.1), each inequality written once.
//
// u and a are counted for each heap and size class, in blocks: u those in use, a those that its superblocks have room
// for, n those of one superblock. The paper's text counts so ("more than f of its blocks are not in use"); its formulas
// count bytes of superblocks, which would take the superblock's header and what is left at its end for free memory
// (a class with two blocks of 2,752 bytes in 8 KiB is 33 % empty when it is full). Nothing is subtracted, so nothing
// wraps: a - K*S is below 0 for a small heap.
#pragma once

#include "base/base.hpp"

namespace coffer::papers::hoard {

// f in sixteenths: with 16 fullness groups, 1 - f is always an edge between two of them.
inline constexpr u32 kParts = 16;

struct Threshold {
  u32 f;  // 1 .. 15
  u32 k;  // superblocks' worth of free blocks

  // u >= a - K*n, or u >= (1 - f) a.
  constexpr bool holds(u64 used, u64 blocks, u64 per_superblock) const {
    return used + k * per_superblock >= blocks || used * kParts >= (kParts - f) * blocks;
  }
  // More than f of the blocks are free, and more than K superblocks' worth.
  constexpr bool crossed(u64 used, u64 blocks, u64 per_superblock) const {
    return !holds(used, blocks, per_superblock);
  }

  // After malloc a class may have up to one superblock's worth of free blocks even for K = 0: it takes a superblock
  // only when it has no free block, and then takes a whole one. For K >= 1 that is within the first inequality.
  constexpr bool holds_after_malloc(u64 used, u64 blocks, u64 per_superblock) const {
    return holds(used, blocks, per_superblock) || used + per_superblock >= blocks;
  }

  // At least f of the superblock's blocks are free.
  constexpr bool is_half_of(u64 used, u64 per_superblock) const {
    return used * kParts <= (kParts - f) * per_superblock;
  }
};

// --- fullness groups (section 3.1). ---
//
// Group g > 0 holds the superblocks with more than (g - 1)/16 and at most g/16 of their blocks in use, so that the
// groups up to 16 - 16 f are exactly those that are at least f empty. Group 0 is empty; those without a free block are
// apart, since malloc looks for the fullest that has one.
inline constexpr u32 kEmptyGroup = 0;
inline constexpr u32 kFullGroup = kParts + 1;
inline constexpr u32 kGroups = kParts + 2;

constexpr u32 group_of(u64 used, u64 per_superblock) {
  if (used == per_superblock) return kFullGroup;
  return static_cast<u32>((used * kParts + per_superblock - 1) / per_superblock);
}

// The most blocks in use with which a superblock stays in its group; the least is one more than that of the group
// below. A group may be empty of counts where a superblock has few blocks.
constexpr u64 most_in_group(u32 group, u64 per_superblock) {
  if (group == kFullGroup) return per_superblock;
  const u64 most = group * per_superblock / kParts;
  return most < per_superblock ? most : per_superblock - 1;
}

}  // namespace coffer::papers::hoard
