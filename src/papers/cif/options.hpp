// SPDX-License-Identifier: MIT
// The options of CIF_CONF (config/table.hpp makes parser and help of them). Defaults are paper 3's; `f` and
// `k` are paper 1's.
#pragma once

#include "config/units.hpp"
#include "papers/cif/array.hpp"

namespace coffer::cif {

enum class ColourPlace : u8 { before, after, none };

}  // namespace coffer::cif

namespace coffer::config {

inline constexpr char kVariable[] = "CIF_CONF";
inline constexpr bool kProgramString = false;

using CifArray = cif::ArrayRule;
using CifClasses = cif::ClassRule;
using CifColour = cif::ColourPlace;
enum class EmptyFraction : u8 { half, quarter, eighth, sixteenth };

// clang-format off
#define COFFER_OWN_OPTIONS(SIZE, UNSIGNED, CHOICE, BOOLEAN, TEXT)                                                     \
  SIZE(superblock, 64 * kKiB, 16 * kKiB, 4 * kMiB, "bytes of a superblock; rounded up to a power of two")             \
  CHOICE(array, CifArray, CifArray::punctuated, "punctuated|multiple|ciu", "spacers after a cache page, lcm, never")  \
  CHOICE(classes, CifClasses, CifClasses::powers, "powers|halves|odd|adjusted", "sizes of blocks, header included")   \
  UNSIGNED(colours, 16, 1, 4096, "lines by which superblocks may differ, and one")                                    \
  CHOICE(colour, CifColour, CifColour::before, "before|after|none", "where a superblock's colour lies: at its header") \
  BOOLEAN(align, true, "blocks of a line and more start on lines")                                                    \
  SIZE(line, 64, 16, 256, "bytes of a cache line; rounded up to a power of two")                                      \
  SIZE(page, 4 * kKiB, kKiB, 64 * kKiB, "bytes after which cache indices repeat; rounded up to a power of two")       \
  UNSIGNED(heaps, 0, 0, 1024, "heaps that processors share; 0: one for each processor")                               \
  CHOICE(f, EmptyFraction, EmptyFraction::quarter, "1/2|1/4|1/8|1/16", "free part that is too much")     \
  UNSIGNED(k, 4, 0, 4096, "superblocks of a class that a heap may keep free, beside that part")                       \
  BOOLEAN(release, false, "give empty superblocks back to the kernel")                                                \
  UNSIGNED(seed, 0, 0, 0xffff'ffff, "of the colours; 0: another one in each process")
// clang-format on

}  // namespace coffer::config
