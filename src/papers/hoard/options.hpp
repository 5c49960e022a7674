// SPDX-License-Identifier: MIT
// HOARD_CONF. Names and defaults are those of paper 1, section 5.
#pragma once

#include "config/units.hpp"

namespace coffer::config {

inline constexpr char kVariable[] = "HOARD_CONF";
inline constexpr bool kProgramString = false;

// What papers/hoard/parameters.cpp makes of each choice stands there in the same order.
enum class EmptyFraction : u8 { half, quarter, eighth, sixteenth, three_quarters };
enum class SizeFactor : u8 { f110, f120, f125, f150, f200 };
enum class Lookup : u8 { header, mask };
enum class Assign : u8 { hash, processor, adaptive };

// clang-format off
#define COFFER_OWN_OPTIONS(SIZE, UNSIGNED, CHOICE, BOOLEAN, TEXT)                                                      \
  SIZE(superblock, 8 * kKiB, 4 * kKiB, 1 * kMiB, "S: bytes of a superblock; rounded up to a power of two")             \
  CHOICE(f, EmptyFraction, EmptyFraction::quarter, "1/2|1/4|1/8|1/16|3/4", "empty fraction: free part to give up")     \
  UNSIGNED(k, 4, 0, 1000000, "K: superblocks' worth of free blocks that a heap keeps, by class")                       \
  CHOICE(b, SizeFactor, SizeFactor::f120, "1.1|1.2|1.25|1.5|2", "factor between size classes")                         \
  UNSIGNED(heaps, 0, 0, 1024, "heaps beside the global one; 0: twice the processors")                                  \
  CHOICE(assign, Assign, Assign::hash, "hash|processor|adaptive", "which heap a thread uses")                          \
  CHOICE(lookup, Lookup, Lookup::header, "header|mask", "how a block's superblock is found")                           \
  BOOLEAN(release, false, "empty superblocks of the global heap go back to the system")                                \
  BOOLEAN(peaks, false, "count U, the most that was ever live; every call then meets at one counter")
// clang-format on

}  // namespace coffer::config
