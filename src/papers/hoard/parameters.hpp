// SPDX-License-Identifier: MIT
// The options as the code wants them, fixed at the start.
#pragma once

#include "config/config.hpp"
#include "papers/hoard/sizes.hpp"
#include "papers/hoard/threshold.hpp"

namespace coffer::papers::hoard {

struct Heap;

struct Parameters {
  usize superblock_bytes;  // S
  usize word;              // bytes before each block: kWord, or 0 with lookup:mask
  Threshold threshold;     // f and K
  u32 heaps;               // beside heap 0
  config::Assign assign;
  bool release;
  bool peaks;
  Heap* first_heap;  // heap 0; the others follow
  SizeClasses classes;
  u32 capacity[kMostClasses];  // blocks of a superblock, by class

  bool has_words() const { return word != 0; }
};

extern Parameters g_hoard __attribute__((visibility("hidden")));

// From the options, for so many processors.
void read_parameters(const config::Options& options, u32 processors, usize page);

}  // namespace coffer::papers::hoard
