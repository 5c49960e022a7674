// SPDX-License-Identifier: MIT
// Prints src/size_class/placement_rows.inc: how the blocks of each size class lie in their spans, as the generator
// chooses it, and what that wastes. After a change of the generator, the cache's geometry or the classes:
//
//   build/test/unit/placement_table > src/size_class/placement_rows.inc
//
// A test compares the file with what this program prints.
#include <cstdio>

#include "generator.hpp"

namespace {

using namespace coffer;

constexpr const char* kHead =
    "// SPDX-License-"
    "Identifier: MIT\n"
    "// Made by tools/placement_table; what the columns are: placement_table.hpp.\n"
    "// bytes        row slice step  request way       slices blocks colours   waste indices "
    "even  without\n";

const char* way(ClassIndex size_class, const ClassLayout& layout) {
  if (layout.block_bytes != class_bytes(size_class)) return "odd";
  return layout.stride().is_flat() ? "flat" : "punctuated";
}

}  // namespace

int main() {
  std::fputs(kHead, stdout);
  u64 sum = 0;
  u64 flat_sum = 0;
  for (ClassIndex c = 0; c < kSizeClasses; ++c) {
    const PlacementChoice choice = generator::choose(c);
    const ClassLayout layout = lay_out(choice);
    ClassLayout flat = kFlatLayout[c];
    flat.colours = 1;
    const u32 wasted = generator::waste(c, layout);
    sum += wasted;
    flat_sum += generator::waste(c, flat);
    const generator::Spread spread = generator::worst_spread(layout, generator::kSurveyed);
    const generator::Spread flat_spread = generator::worst_spread(flat, generator::kSurveyed);
    char row[16] = "kNoSpacers";
    if (!layout.stride().is_flat()) std::snprintf(row, sizeof row, "%u", layout.row_log2);
    std::printf("{%5u, %10s, %u, %2u},  // %6zu  %-10s  %4u   %4u    %4u  %2u.%02u %%    %4u %4u     %4u\n",
                choice.block_bytes, row, choice.slices_log2, choice.colour_step, class_bytes(c), way(c, layout),
                1u << layout.slices_log2, layout.capacity, layout.colours, wasted / 100, wasted % 100, spread.indices,
                spread.even, flat_spread.indices);
  }
  std::printf("// Waste over all classes: %.2f %%; without placement %.2f %%.\n",
              static_cast<double>(sum) / kSizeClasses / 100, static_cast<double>(flat_sum) / kSizeClasses / 100);
}
