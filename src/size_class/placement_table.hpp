// SPDX-License-Identifier: MIT
// How the blocks of each size class lie in their spans, as the generator chose it (tools/placement_table).
//
// Behind each row: what it serves and how; blocks and colours of a span; what tail, spacers and added lines take of a
// span; of 256 blocks, in thousandths, how many of the cache indices they start at, and how many of them are on an
// index no fuller than if all were spread ideally; the indices without placement.
#pragma once

#include <array>

#include "size_class/size_class.hpp"
#include "size_class/stride.hpp"

namespace coffer {

struct PlacementChoice {
  u32 block_bytes;
  u8 row_log2;     // log2 of the blocks in a row between spacers
  u8 slices_log2;  // log2 of the slices of a span
  u8 colour_step;  // lines from one span's colour to the next one's
};

inline constexpr std::array<PlacementChoice, kSizeClasses> kPlacementTable = {{
#include "size_class/placement_rows.inc"
}};

}  // namespace coffer
