// SPDX-License-Identifier: MIT
// How much is listed: from how many free blocks on a span is reusable, claimed or in the partial pool, and when its
// free blocks are counted anew.
#pragma once

#include "base/bits.hpp"
#include "config/config.hpp"

namespace coffer {

constexpr u32 reuse_shift(config::EmptyFraction fraction) { return 2 + static_cast<u32>(fraction); }
// Derived: of the option's default.
inline constexpr u32 kDefaultReuseShift = reuse_shift(config::EmptyFraction::quarter);

constexpr u32 part_of(u32 capacity, u32 shift) {
  const u32 blocks = (capacity + (1u << shift) - 1) >> shift;
  return blocks == 0 ? 1 : blocks;
}

// Power of two of the heaps that thresholds are divided among, at most (span/emptiness.hpp: g_sharing_log2). Chosen by
// idle owners with local frees: 1.14 with none, 1.07 with this (docs/design/speed-log.md).
inline constexpr u32 kMostSharingLog2 = 2;

// Blocks, free on one side, that are enough for a span to be reusable wherever heaps share. Chosen by
// memory: with half a ring of 16 holds 1.7 % more, with twice idle owners 3.4 %.
inline constexpr u32 kEnoughBlocks = 16;
// Free blocks, on one side alone, from which on a span is reusable: f / 2 of them, f = 2 / (1 << shift), rounded up; at
// least one, at most all. Where heaps share, f / 2 over their number, but no less than kEnoughBlocks: what floating
// spans keep free adds up over heaps, at the price of more changes of spans.
constexpr u32 reuse_threshold_at(u32 shift, u32 capacity, u32 sharing_log2) {
  const u32 blocks = part_of(capacity, shift);
  if (blocks <= kEnoughBlocks) return blocks;
  const u32 shared = part_of(capacity, shift + sharing_log2);
  return shared > kEnoughBlocks ? shared : kEnoughBlocks;
}
constexpr u32 half_of(u32 capacity) { return part_of(capacity, 1); }

// Blocks on the remote list at which a push claims a private span, so that it gets to somebody who can use it though
// its owner may sleep for ever: f / 2 more than there were when its heap last looked at it. But where `most` blocks can
// be on that list by then, the last one of them claims.
constexpr u32 claim_after(u32 threshold, u32 most, u32 remote) {
  const u32 at = remote + threshold;
  return remote < most && most < at ? most : at;
}
// When the owner makes the span hot, or has just taken that list, it may come back for more: half of the blocks that
// were carved. With f / 2 after a take, too, producers and consumers issue 4.5 times as many barriers, and with f / 2
// of what gets hot `asymmetric` takes 1.14 of the time (docs/design/speed-log.md).
constexpr u32 claim_in_use(u32 threshold, u32 carved) { return carved / 2 > threshold ? carved / 2 : threshold; }

// Frees in a hot span after which its owner looks whether somebody counts by now what malloc takes; then the list that
// malloc pops from is put back. Chosen by instructions: with 256 a pair takes 0.2 more, with this less than 0.1.
inline constexpr u32 kFreesOfALook = 1024;

// Local frees of a reusable span with `free` blocks after which these are counted anew: when they have doubled, or none
// is live. So the slack is at least half of what the owner's frees made it, and a span is counted three times at most
// on its way from f / 2 to empty.
constexpr u32 frees_to_recount(u32 capacity, u32 free) {
  const u32 live = capacity - free;
  return live < free ? live : free != 0 ? free : 1;
}

// What all spans of a class hold at most, by the highest of what it used (span/class_use.hpp): less than f / 2 of each
// shared span was free when the last one was made.
constexpr usize bound_of_class_at(u32 shift, usize high) { return high + divide_up(high, (usize{1} << shift) - 1); }

static_assert(reuse_threshold_at(kDefaultReuseShift, 8, 0) == 1);
static_assert(reuse_threshold_at(kDefaultReuseShift, 9, 0) == 2);
static_assert(reuse_threshold_at(kDefaultReuseShift, 1, 2) == 1);
static_assert(reuse_threshold_at(kDefaultReuseShift, 2048, 0) == 256);
static_assert(reuse_threshold_at(kDefaultReuseShift, 2048, 2) == 64);
static_assert(reuse_threshold_at(reuse_shift(config::EmptyFraction::half), 2048, 2) == 128);
static_assert(reuse_threshold_at(reuse_shift(config::EmptyFraction::sixteenth), 2048, 2) == 16);
static_assert(reuse_threshold_at(kDefaultReuseShift, 128, 2) == 16);
static_assert(reuse_threshold_at(kDefaultReuseShift, 256, 2) == 16);
static_assert(reuse_threshold_at(kDefaultReuseShift, 120, 2) == 15);
static_assert(reuse_threshold_at(kDefaultReuseShift, 1024, 2) == 32);
static_assert(bound_of_class_at(3, 7 * 32768) == 8 * 32768 && bound_of_class_at(1, 100) == 200);
static_assert(claim_after(8, 64, 0) == 8 && claim_after(8, 14, 10) == 14 && claim_after(8, 10, 10) == 18);
static_assert(claim_in_use(8, 64) == 32 && claim_in_use(8, 2) == 8);

}  // namespace coffer
