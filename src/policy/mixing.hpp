// SPDX-License-Identifier: MIT
// When spans mix: when a heap uses mixed spans, and how large they grow. docs/design/mixed-spans.md has what the whole
// is worth.
#pragma once

#include "policy/kept.hpp"

namespace coffer {

// Bytes. Blocks of this size on are cut to what was asked for, and get new memory in mixed spans where memory is full
// of holes: survivors then lie closer together, and no class is rounded up to. Smaller ones are cut by classes. Chosen
// by the sweep: for either use by itself no row differs with 64 or 256.
inline constexpr u32 kCutExactly = 128;
// Bytes of a list from holes. Chosen by phases of 128 to 256 bytes, which hold 5 % more with 8 KiB; with 1 and 4 KiB no
// row differs.
inline constexpr u32 kListBytes = 2 * 1024;
// Derived: what free bytes in spans must pass before others may have the spans is kNegligible and, in a process over 64
// MiB, 1/256 of what is held. With half and with twice of it no row differs, nor drifting phases of 300 MB.
inline constexpr u32 kWasteShare = 32 * kSmallPart;
// Bytes that a small process holds at most. Its first blocks come from mixed spans, whose holes are used beyond twice
// as much. Chosen by the sweep: with half, 0.8 MB in 2,000 blocks takes 11 % more; with twice, `random` 21 % more
// instructions.
inline constexpr usize kSmallProcess = usize{1} << 20;
// Blocks of a class that a thread of a small process gets so; they are counted in a byte. Chosen by 0.8 MB in 2,000
// blocks: with half 2 % more memory (and `random` 12 % fewer instructions); with twice no less, and 3 % more
// instructions.
inline constexpr u32 kYoungBlocks = 250;
static_assert(kYoungBlocks <= 255, "counted in a byte");
// Blocks of a class that a thread freed in mixed spans before it counts as working with the class, and gets a span of
// its own when it asks for more, where frees are fast: without this, 3,900 instructions a pair in a working set of
// 1,000 in place of 50 (docs/design/mixed-spans.md). In a small process a quarter of it, and for ever, for a loop of
// malloc and free would make and end a mixed span each time. Chosen by the sweep: with half and with twice no row
// differs.
inline constexpr u32 kChurn = 64;

// Times what was live in them that mixed spans may hold, beside kMixedFloor (docs/design/bound.md). Chosen by the ten
// phases: with once 43 % more; with four times no row differs, and the bound is twice as large.
inline constexpr u32 kMixedPerLive = 2;
// Derived: with half and with twice of it no row differs.
inline constexpr usize kMixedFloor = 4 * kSmallProcess;

}  // namespace coffer
