// SPDX-License-Identifier: MIT
// How blocks spread over the indices of a cache: the figures of `coffer index`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "geometry.hpp"

namespace coffer::tools {

struct Spread {
  uint64_t distinct = 0;    // indices that blocks start on
  uint64_t attainable = 0;  // as many could be, for this number of blocks and this alignment
  uint64_t heaviest = 0;    // blocks on the index that has most
  double conflicts = 0;     // of 100 steps of a walk round the first lines, those that miss
  double ideal_conflicts = 0;
  std::vector<uint64_t> loads;  // blocks on each index

  double share() const { return attainable == 0 ? 0 : static_cast<double>(distinct) / static_cast<double>(attainable); }
};

// Indices that `count` blocks can reach at most if all are aligned to `alignment`.
inline uint64_t attainable_indices(const Geometry& cache, uint64_t count, uint64_t alignment) {
  uint64_t indices = cache.sets;
  // Addresses that are multiples of a large alignment have every (alignment / line)-th index: sets / gcd of them.
  if (alignment > cache.line) {
    uint64_t a = alignment / cache.line, b = cache.sets;
    while (b != 0) {
      const uint64_t rest = a % b;
      a = b;
      b = rest;
    }
    indices /= a;
  }
  return std::min(count, indices);
}

// A program that goes round these lines for ever misses at each line of a set with more lines than ways, if the set
// replaces the least recently used one, and nowhere else. Blocks that begin in the same line are one line.
inline double conflict_steps(const std::vector<uint64_t>& loads, const std::vector<uint64_t>& lines, uint64_t ways) {
  uint64_t blocks = 0, missing = 0;
  for (size_t i = 0; i < loads.size(); ++i) {
    blocks += loads[i];
    if (lines[i] > ways) missing += lines[i];
  }
  return blocks == 0 ? 0 : 100.0 * static_cast<double>(missing) / static_cast<double>(blocks);
}

inline Spread measure_spread(const Geometry& cache, const std::vector<uint64_t>& addresses, uint64_t alignment) {
  Spread spread;
  spread.loads.assign(cache.sets, 0);
  std::vector<uint64_t> lines;
  lines.reserve(addresses.size());
  for (uint64_t address : addresses) {
    ++spread.loads[cache.index(address)];
    lines.push_back(address / cache.line);
  }
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  std::vector<uint64_t> line_loads(cache.sets, 0);
  for (uint64_t line : lines) ++line_loads[line % cache.sets];

  for (uint64_t load : spread.loads) {
    spread.distinct += load != 0;
    spread.heaviest = std::max(spread.heaviest, load);
  }
  spread.attainable = attainable_indices(cache, addresses.size(), alignment);
  spread.conflicts = conflict_steps(spread.loads, line_loads, cache.ways);

  // The same lines, dealt out evenly over the indices that can be attained.
  std::vector<uint64_t> even(std::max<uint64_t>(spread.attainable, 1), 0);
  for (size_t i = 0; i < lines.size(); ++i) ++even[i % even.size()];
  spread.ideal_conflicts = conflict_steps(even, even, cache.ways);
  return spread;
}

// How blocks lie otherwise: on lines, pages, and apart from each other.
struct Layout {
  double on_line = 0;       // share of blocks that start on a line
  double lines = 0;         // lines that a block of this size touches, mean
  double fewest_lines = 0;  // as few could be
  uint64_t stride = 0;      // median distance of neighbours: address space a block
  uint64_t pages = 0;       // pages that hold the first line of a block
};

inline Layout measure_layout(uint64_t line, uint64_t page, uint64_t size, std::vector<uint64_t> addresses) {
  Layout layout;
  if (addresses.empty()) return layout;
  std::sort(addresses.begin(), addresses.end());
  const uint64_t bytes = std::max<uint64_t>(size, 1);
  uint64_t on_line = 0, lines = 0, last_page = ~uint64_t{0};
  std::vector<uint64_t> gaps;
  for (size_t i = 0; i < addresses.size(); ++i) {
    on_line += addresses[i] % line == 0;
    // A list may say anything, also blocks that end behind the last address.
    const uint64_t room = ~uint64_t{0} - addresses[i];
    lines += (addresses[i] + std::min(bytes - 1, room)) / line - addresses[i] / line + 1;
    layout.pages += addresses[i] / page != last_page;
    last_page = addresses[i] / page;
    if (i > 0) gaps.push_back(addresses[i] - addresses[i - 1]);
  }
  const double count = static_cast<double>(addresses.size());
  layout.on_line = static_cast<double>(on_line) / count;
  layout.lines = static_cast<double>(lines) / count;
  layout.fewest_lines = static_cast<double>(bytes / line + (bytes % line != 0));
  if (!gaps.empty()) {
    std::nth_element(gaps.begin(), gaps.begin() + static_cast<ptrdiff_t>(gaps.size() / 2), gaps.end());
    layout.stride = gaps[gaps.size() / 2];
  }
  return layout;
}

}  // namespace coffer::tools
