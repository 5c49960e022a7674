// SPDX-License-Identifier: MIT
// When spans mix: when a heap uses mixed spans, and how large they grow. docs/design/mixed-spans.md has what the whole
// is worth.
#pragma once

#include "policy/kept.hpp"

namespace coffer {

// Bytes. Blocks of this size on are carved to what was asked for, and get new memory in mixed spans where memory is
// full of holes: survivors then lie closer together, and no class is rounded up to. Smaller ones are carved by classes.
// Chosen by the sweep: for either use by itself no row differs with 64 or 256.
inline constexpr u32 kCarvedExactly = 128;
// Bytes of a list from holes. Chosen by phases of 128 to 256 bytes, which hold 5 % more with 8 KiB; with 1 and 4 KiB no
// row differs.
inline constexpr u32 kListBytes = 2 * 1024;
// Bytes. Blocks of this size on get new memory in mixed spans, in any process, until their class earns a span of its
// own. Chosen by programs drawn at random: 1.262 of the best other, 1.272 with twice, 1.289 with four times, 1.303 with
// eight (docs/design/drawn.md).
inline constexpr usize kMixedBytes = 1024;
// Derived: blocks of which two pages are touched. They count when they are handed out, too, and a heap that holds much
// gets a span of them after a span: whoever only grows by them wants huge pages. If smaller ones counted, a phase of
// survivors would have spans of its own (ten phases 1.9 -> 3.5).
inline constexpr usize kCountedBytes = 2 * kCarvePage;
// Bytes of a new mixed span, so that two of the largest blocks fit. A small process takes a slice at a time. Chosen by
// the same: 1.228 with half, 1.219 with this, 1.224 with twice; with a slice for small blocks drifting phases hold 15 %
// more.
inline constexpr usize kMixedSpan = usize{128} << 10;
// Bytes that a small process holds at most. Its first blocks come from mixed spans, whose holes are used beyond twice
// as much. Chosen by the sweep: with half, 0.8 MB in 2,000 blocks takes 11 % more; with twice, `random` 21 % more
// instructions.
inline constexpr usize kSmallProcess = usize{1} << 20;
// Blocks of a class that a thread freed in mixed spans, in churn_ns, before it counts as working with the class,
// and gets a span of its own when it asks for more, where frees are fast: without this, 3,900 instructions a pair
// in a working set of 1,000 in place of 50 (docs/design/mixed-spans.md). Chosen by programs drawn at random, and by
// sizes to 32 KiB, where 40 classes share what a thread can do (docs/design/drawn.md): with 64 2 % more memory;
// with 128 in twice the time the same, and such sizes in two threads take 9 % longer.
inline constexpr u32 kChurn = 96;
// Nanoseconds. Below that rate what mixed spans cost is two thousandths of a processor for each class, where there are
// two, while a span of 256 KiB is held for what is seldom used. Chosen by nginx, which replaces blocks of a dozen
// classes some 10,000 times a second: with a quarter of it 1.5 % more processor time (docs/design/drawn.md, "A server's
// classes"). By programs drawn at random: with a quarter 0.7 % less memory, with twice 0.8 % more.
inline constexpr u64 kChurnNs = 16'000'000;
// For each of the shards, of which there is one a processor up to 16: mixed spans have as many locks however many
// threads come to them. A thread that works with 40 classes just too slowly comes 500 times in a millisecond where
// there are two processors, and 60 times where there are 16.
constexpr u64 churn_ns(u32 shards) { return kChurnNs * shards; }
// Derived: the clock is read once in so many of these blocks.
inline constexpr u32 kChurnLook = kChurn / 8;

// Times what was live in them that mixed spans may hold, beside kMixedFloor (docs/design/bound.md). Chosen by the ten
// phases: with once 43 % more; with four times no row differs, and the bound is twice as large.
inline constexpr u32 kMixedPerLive = 2;
// Derived: with half and with twice of it no row differs.
inline constexpr usize kMixedFloor = 4 * kSmallProcess;

}  // namespace coffer
