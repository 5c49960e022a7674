// SPDX-License-Identifier: MIT
// Chooses how the blocks of each size class lie in their spans; placement_table.cpp prints what it chose, and
// src/size_class/placement_rows.inc is what it printed.
//
// There are three ways to give the blocks of a class all cache indices:
//   flat        the bytes themselves do it (16 * odd, an odd number of lines), or spans that start at different lines
//               (colours, made of the tail) do it together
//   punctuated  a spacer line after each row of blocks (CIF, section 3)
//   odd         blocks longer by one line, so that they are an odd number of lines (CIF, appendix B)
// Of those that spread well, the one in the fewest slices at which tail, spacers and added lines stay within 2 %; of
// several, the one that wastes least.
#pragma once

#include <array>

#include "size_class/placement.hpp"

namespace coffer::generator {

inline constexpr u32 kSurveyed = 256;  // blocks, as in figure 1 of the paper
inline constexpr u32 kWastePermille = 20;
// What a way must reach of the ideal; and for those few classes that nothing fits within the waste.
struct Demand {
  u32 indices;  // thousandths of the indices that blocks start at
  u32 even;     // thousandths of the blocks whose index is no fuller than ideal
};
inline constexpr Demand kDemand = {980, 700};
inline constexpr Demand kLeastDemand = {930, 700};

struct Spread {
  u32 indices;
  u32 even;
  constexpr bool meets(Demand demand) const { return indices >= demand.indices && even >= demand.even; }
};

// How `count` blocks spread over the cache indices, in thousandths, in spans that follow each other with the colours of
// the layout from `colour` on.
constexpr Spread spread(const ClassLayout& layout, u32 count, u32 colour) {
  std::array<u32, kCacheSets> full{};
  const u32 ideal = (count + kCacheSets - 1) / kCacheSets;
  u32 even = 0;
  u32 indices = 0;
  for (u32 i = 0; i < count; ++i) {
    const u32 in_span = i % layout.capacity;
    if (i != 0 && in_span == 0) colour = (colour + layout.colour_step) % layout.colours;
    const usize start = layout.first + colour * kCacheLine + layout.stride().offset(in_span);
    const u32 others = full[start / kCacheLine % kCacheSets]++;
    if (others == 0) ++indices;
    if (others < ideal) ++even;
  }
  return {indices * 1000 / (count < kCacheSets ? count : kCacheSets), even * 1000 / count};
}

// What processors of AMD (Zen) tell the lines of one index apart by, before they know the address: two lines with one
// index and one tag push each other out of the first level, however many ways it has. (Bits 12 to 19, each with one
// above: Lipp et al., "Take A Way", 2020; a Zen 5 does the same.)
constexpr u32 way_tag(usize address) {
  constexpr u32 kAbove[] = {27, 26, 25, 20, 21, 22, 23, 24};
  u32 tag = static_cast<u32>(address >> 12) & 0xff;
  for (u32 i = 0; i < 8; ++i) tag ^= static_cast<u32>((address >> kAbove[i]) & 1) << i;
  return tag;
}

// Thousandths of the blocks, in spans as above, that have index and tag of another one.
constexpr u32 aliases(const ClassLayout& layout, u32 count, u32 colour) {
  std::array<u16, kCacheSets * 256> seen{};
  u32 twice = 0;
  for (u32 i = 0; i < count; ++i) {
    const u32 in_span = i % layout.capacity;
    if (i != 0 && in_span == 0) colour = (colour + layout.colour_step) % layout.colours;
    const usize span = usize{i / layout.capacity} * (kSliceBytes << layout.slices_log2);
    const usize start = span + layout.first + colour * kCacheLine + layout.stride().offset(in_span);
    u16& here = seen[start / kCacheLine % kCacheSets * 256 + way_tag(start)];
    ++here;
    twice += here < 2 ? 0 : here == 2 ? 2 : 1;
  }
  return twice * 1000 / count;
}

// The worst of all first colours.
constexpr Spread worst_spread(const ClassLayout& layout, u32 count) {
  Spread worst = {1000, 1000};
  for (u32 colour = 0; colour < layout.colours; ++colour) {
    const Spread found = spread(layout, count, colour);
    if (found.indices < worst.indices) worst.indices = found.indices;
    if (found.even < worst.even) worst.even = found.even;
  }
  return worst;
}

constexpr u32 common_divisor(u32 a, u32 b) { return b == 0 ? a : common_divisor(b, a % b); }

// Bytes of a span that no request of the class's size uses, in hundredths of a percent.
constexpr u32 waste(ClassIndex size_class, const ClassLayout& layout) {
  const usize span = kSliceBytes << layout.slices_log2;
  return static_cast<u32>((span - layout.capacity * class_bytes(size_class)) * 10000 / span);
}

// Of all first colours, the sum; a worst one would be about the same for all steps.
constexpr u32 all_aliases(const ClassLayout& layout) {
  u32 sum = 0;
  for (u32 colour = 0; colour < layout.colours; ++colour) sum += aliases(layout, 2 * kSurveyed, colour);
  return sum / layout.colours;
}

// The way with the step between colours that spreads best: of those that meet the demand one with few aliases.
constexpr PlacementChoice with_best_step(PlacementChoice choice, Demand demand) {
  const u32 colours = lay_out(choice).colours;
  u32 best = 0;
  PlacementChoice result = choice;
  for (u32 step = 1; step < colours; ++step) {
    if (common_divisor(step, colours) != 1) continue;
    choice.colour_step = static_cast<u8>(step);
    const ClassLayout layout = lay_out(choice);
    const Spread many = worst_spread(layout, kSurveyed);
    u32 sum = many.indices * 4 + many.even * 2 + worst_spread(layout, kCacheSets).even;
    if (many.meets(demand)) sum += 8000 - all_aliases(layout);
    if (sum <= best) continue;
    best = sum;
    result = choice;
  }
  return result;
}

constexpr PlacementChoice choose(ClassIndex size_class) {
  const u32 bytes = static_cast<u32>(class_bytes(size_class));
  PlacementChoice best{};
  u32 best_waste = ~0u;
  const auto consider = [&](u32 block_bytes, u32 row_log2, u32 slices_log2, Demand demand) {
    const PlacementChoice plain = {block_bytes, static_cast<u8>(row_log2), static_cast<u8>(slices_log2), 0};
    const u32 wasted = waste(size_class, lay_out(plain));
    if (lay_out(plain).capacity < least_blocks(bytes) - 1 || wasted >= best_waste) return;
    const PlacementChoice choice = with_best_step(plain, demand);
    if (!worst_spread(lay_out(choice), kSurveyed).meets(demand)) return;
    best = choice;
    best_waste = wasted;
  };
  const auto consider_all = [&](u32 slices_log2, Demand demand) {
    // Half of all lines, or more, need no help.
    if (bytes % (2 * kCacheLine) != 0) return consider(bytes, kNoSpacers, slices_log2, {});
    consider(bytes, kNoSpacers, slices_log2, demand);
    const u32 repeats = common_divisor(kCacheSets, bytes / static_cast<u32>(kCacheLine));
    // Rows of one block are odd strides.
    if (repeats < kCacheSets) consider(bytes, lowest_bit(kCacheSets / repeats), slices_log2, demand);
    consider(bytes + static_cast<u32>(kCacheLine), kNoSpacers, slices_log2, demand);
  };
  for (u32 log2 = 0; (1u << log2) <= kMaxSpanSlices; ++log2) {
    if ((kSliceBytes << log2) / bytes < least_blocks(bytes)) continue;
    consider_all(log2, kDemand);
    if (best_waste <= kWastePermille * 10) return best;
  }
  best_waste = ~0u;
  for (u32 log2 = 0; (1u << log2) <= kMaxSpanSlices; ++log2) consider_all(log2, kLeastDemand);
  return best;
}

}  // namespace coffer::generator
