// SPDX-License-Identifier: MIT
// Who is idle, and what is taken from him.
#pragma once

#include "size_class/placement.hpp"

namespace coffer {

// Bytes. A heap is idle when the process took so much new memory for each of its heaps while this one's thread made no
// call: what stealing costs is then a small part of what the growth costs that it saves. An idle heap keeps about as
// much, and where all heaps may keep more than the option `free_limit`, the reclaimer looks at them. Chosen by the
// simulation: with half, 8 producers and consumers take 1.7 times as long; with 512 KiB a ring of 16 holds 1.22 in
// place of 1.16 (docs/design/speed-log.md). What the reclaimer goes by, alone, changes no row.
inline constexpr usize kIdleGrowth = usize{64} << 10;

// Bytes that a process holds at least before idle heaps are searched for spans. Chosen by the simulation: with half,
// Larson on 16 cores takes 2.5 times as long and 8 producers and consumers 1.3 times; with twice no row differs by 1 %.
inline constexpr usize kWorthSearching = usize{4} << 20;

// The same in slices: of few heaps a quarter of what makes a search worthwhile, for each looks idle while its thread is
// off the processor, and a single span of large blocks is 256 KiB. Chosen by the slowest calls of two threads: without
// this 210 to 275 barriers a run, with it 40 to 90; with all of kWorthSearching idle owners hold 1 % more.
constexpr u32 idle_slices(u32 heaps) {
  const usize bytes = heaps * kIdleGrowth;
  return static_cast<u32>((bytes > kWorthSearching / 4 ? bytes : kWorthSearching / 4) / kSliceBytes);
}

// Heaps that one call looks at. Chosen by the simulation: with 8, 8 producers and consumers take twice as long; with 2
// no row differs.
inline constexpr u32 kHeapLooks = 4;

// Spans on each ring of a heap that is stolen from that are looked at, so that no call is long. Chosen by the sweep:
// with 128 no row differs.
inline constexpr u32 kRobbedOfRing = 64;

}  // namespace coffer
