// SPDX-License-Identifier: MIT
#include "papers/hoard/parameters.hpp"

#include "base/bits.hpp"
#include "papers/hoard/superblock.hpp"

namespace coffer::papers::hoard {

Parameters g_hoard;

namespace {

constexpr u32 kFractions[] = {8, 4, 2, 1, 12};         // of EmptyFraction, in sixteenths
constexpr u32 kFactors[] = {110, 120, 125, 150, 200};  // of SizeFactor, in hundredths
constexpr usize kWords[] = {kWord, 0};                 // of Lookup

usize larger(usize a, usize b) { return a > b ? a : b; }

}  // namespace

void read_parameters(const config::Options& options, u32 processors, usize page) {
  Parameters& p = g_hoard;
  // "A multiple of the system page size" (section 3).
  p.superblock_bytes = usize{1} << ceil_log2(larger(options.superblock, page));
  p.word = kWords[static_cast<u32>(options.lookup)];
  p.threshold = {kFractions[static_cast<u32>(options.f)], options.k};
  // Twice as many as processors, so that threads that run at the same time seldom share one (section 3).
  p.heaps = options.heaps != 0 ? options.heaps : 2 * processors;
  p.assign = options.assign;
  p.release = options.release;
  p.peaks = options.peaks;
  p.classes.build(largest_stride(p.superblock_bytes, p.word) - p.word, p.word, kFactors[static_cast<u32>(options.b)]);
  for (u32 c = 0; c < p.classes.count(); ++c) {
    p.capacity[c] = capacity_of(p.superblock_bytes, p.classes.stride(c), p.word);
  }
}

}  // namespace coffer::papers::hoard
