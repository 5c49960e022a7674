// SPDX-License-Identifier: MIT
// Sizes and alignments that reach every path: each class, the borders between classes, spans of several slots, runs of
// slots, whole chunks.
#pragma once

#include "size_class/size_class.hpp"
#include "support/random.hpp"

namespace coffer::test {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * 1024;

// One below, at, or one above the border of a random class.
inline std::size_t border_size(Random& random) {
  const std::size_t border = class_bytes(static_cast<ClassIndex>(random.below(kClasses)));
  return border - 1 + random.below(3);
}

// Blocks of runs of slots: over 32 KiB to 1 MiB, often just around a multiple of a slot.
inline std::size_t slice_run_size(Random& random) {
  if (random.one_in(3)) return random.between(1, 32) * 32 * kKiB - 1 + random.below(3);
  return random.by_magnitude(32 * kKiB + 1, kMiB);
}

// Blocks of whole chunks: from 1 MiB on, often just around a multiple of a chunk.
inline std::size_t chunk_size(Random& random, std::size_t largest = 16 * kMiB) {
  if (random.one_in(3)) return random.between(1, largest / (2 * kMiB)) * 2 * kMiB - 1 + random.below(3);
  return random.by_magnitude(kMiB, largest);
}

// What programs ask for, roughly, with the rest mixed in: in 1000, 2 large ones of slot runs and one of chunks per
// 4000.
inline std::size_t mixed_size(Random& random) {
  const std::uint64_t dice = random.below(4000);
  if (dice == 0) return chunk_size(random);
  if (dice < 9) return slice_run_size(random);
  if (dice < 20) return 0;
  if (dice < 400) return random.between(1 * kKiB, 32 * kKiB);
  if (dice < 1200) return border_size(random) % (4 * kKiB);
  return random.by_magnitude(1, kKiB);
}

// A power of two from 16 on; over a page seldom, up to 16 MiB.
inline std::size_t alignment(Random& random) {
  if (random.one_in(200)) return std::size_t{1} << random.between(12, 24);
  return std::size_t{1} << random.between(4, 12);
}

}  // namespace coffer::test
