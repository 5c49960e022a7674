// SPDX-License-Identifier: MIT
// When a span counts as usable again, and how much of it a heap may keep: Hoard's f and K (paper 1, section 3.2), as
// pure functions. Each formula stands here once.
//
//   f      empty fraction (option): 1/4. A span is f-empty when at least a quarter of its blocks are free.
//   slack  free bytes in reusable spans that a heap may keep (Hoard's K * S, which bounds a - u, here one byte budget
//          for all classes). Not bytes of spans: a heap that works with thirty classes has a reusable span in each, an
//          eighth of it free.
//
// The owner counts local frees, the remote word counts remote ones, and each can stay just short of its threshold:
// hence each side's threshold is f / 2.
#pragma once

#include "span/choices.hpp"

namespace coffer {

constexpr u32 part_of(u32 capacity, u32 shift) {
  const u32 blocks = (capacity + (1u << shift) - 1) >> shift;
  return blocks == 0 ? 1 : blocks;
}

// Whether more heaps are attached than are likely to be at work together, so that what each keeps to be fast adds up.
// Written by the registry (heap/registry.cpp), read as a hint wherever that is decided.
inline constexpr u32 kFewHeaps = 4;
inline constinit Owned<u8> g_crowded;
inline bool is_crowded() { return g_crowded.get() != 0; }

// Free blocks, on one side alone, from which on a span is reusable: f / 2 of them, f = 2 / (1 << shift), rounded up; at
// least one, at most all. Crowded, and where that is more than kEnoughBlocks, a quarter of it or kEnoughBlocks does:
// what floating spans keep free is less, for more changes of spans; and those that remote frees claim go from heap to
// heap.
inline constexpr u32 kEnoughBlocks = 16;
constexpr u32 reuse_threshold_at(u32 shift, u32 capacity, bool crowded) {
  const u32 blocks = part_of(capacity, shift);
  if (!crowded || blocks <= kEnoughBlocks) return blocks;
  const u32 quarter = part_of(capacity, shift + 2);
  return quarter > kEnoughBlocks ? quarter : kEnoughBlocks;
}
inline u32 reuse_threshold(u32 capacity) {
  return reuse_threshold_at(g_span_choices.reuse_shift.get(), capacity, is_crowded());
}
inline constexpr u32 kDefaultReuseShift = reuse_shift(config::EmptyFraction::quarter);

// What a heap may keep free: the option, plus a part of what it holds (Hoard's invariant, too, lets a heap keep the
// fraction f of what it holds, or K superblocks).
//
// A quarter, f, of a few heaps: what they hand on is adopted by one that is at work as they are, whose blocks they then
// free as strangers, until it is taken by a barrier. With f = 1/4 in its floating spans that is at most half of a
// heap's bytes: held <= 2 * (live + option + hot spans + frees since the last count).
// Crowded, where what each keeps adds up, or alone, 1/16: 5/16 of a heap's bytes, 1.45 times what is live.
constexpr usize slack_budget(usize option, usize held, bool few) { return option + held / (few ? 4 : 16); }

// Bytes of claimed spans that may wait for their owner to fetch them. Half of what it holds, up to kMostMail beyond the
// option: while it is at work it fetches them soon, and to take them from it costs a barrier. Where more than the
// option waits, whoever needs memory takes it at once (heap/taking.cpp).
inline constexpr usize kMostMail = usize{512} << 10;
constexpr usize mail_budget(usize option, usize held) { return option + (held / 2 < kMostMail ? held / 2 : kMostMail); }

// Blocks on the remote list at which a push claims a private span, so that it gets to somebody who can use it though
// its owner may sleep for ever.
//   floating  f / 2, as for local frees
//   reusable  f / 2 more than there were when it became so; but the last block that is live claims in any case
//   hot       half of the blocks that were cut: the owner may still come and use them itself
inline constexpr u32 kNoClaim = ~u32{0};
constexpr u32 claim_reusable(u32 threshold, u32 capacity, u32 free, u32 remote) {
  if (free >= capacity) return kNoClaim;  // nobody holds a block that could be pushed
  const u32 live = capacity - free;
  return remote + (live < threshold ? live : threshold);
}
constexpr u32 claim_hot(u32 threshold, u32 cut, u32 remote) {
  const u32 half = cut / 2 > threshold ? cut / 2 : threshold;
  return half > remote ? half : remote + 1;
}

// Local frees of a reusable span after which its free bytes are counted anew: an eighth of it, so that the slack is
// never off by more; of few heaps, which may keep more, a quarter.
constexpr u32 recount_step_at(u32 capacity, bool crowded) { return part_of(capacity, crowded ? 3 : 2); }
inline u32 recount_step(u32 capacity) { return recount_step_at(capacity, is_crowded()); }

// What all spans of a class hold at most, by the highest of what it used (span/class_use.hpp): less than f / 2 of each
// shared span was free when the last one was made.
constexpr usize bound_of_class_at(u32 shift, usize high) { return high + divide_up(high, (usize{1} << shift) - 1); }
inline usize bound_of_class(usize high) { return bound_of_class_at(g_span_choices.reuse_shift.get(), high); }

// Whether a heap that keeps `kept` free bytes may keep `more`. Written without a difference, which would
// wrap.
constexpr bool within_slack(usize kept, usize more, usize budget) { return kept <= budget && more <= budget - kept; }

static_assert(reuse_threshold_at(kDefaultReuseShift, 8, false) == 1);
static_assert(reuse_threshold_at(kDefaultReuseShift, 9, false) == 2);
static_assert(reuse_threshold_at(kDefaultReuseShift, 1, true) == 1);
static_assert(reuse_threshold_at(kDefaultReuseShift, 2048, false) == 256);
static_assert(reuse_threshold_at(kDefaultReuseShift, 2048, true) == 64);
static_assert(reuse_threshold_at(reuse_shift(config::EmptyFraction::half), 2048, true) == 128);
static_assert(reuse_threshold_at(reuse_shift(config::EmptyFraction::sixteenth), 2048, true) == 16);
static_assert(reuse_threshold_at(kDefaultReuseShift, 128, true) == 16);
static_assert(reuse_threshold_at(kDefaultReuseShift, 256, true) == 16);
static_assert(reuse_threshold_at(kDefaultReuseShift, 120, true) == 15);
static_assert(reuse_threshold_at(kDefaultReuseShift, 1024, true) == 32);
static_assert(bound_of_class_at(3, 7 * 32768) == 8 * 32768 && bound_of_class_at(1, 100) == 200);
static_assert(claim_reusable(8, 64, 60, 10) == 14 && claim_reusable(8, 64, 8, 0) == 8);
static_assert(claim_reusable(8, 64, 64, 3) == kNoClaim);
static_assert(claim_hot(8, 64, 0) == 32 && claim_hot(8, 2, 0) == 8 && claim_hot(8, 64, 40) == 41);
static_assert(within_slack(0, 64, 64) && !within_slack(1, 64, 64) && !within_slack(65, 0, 64));

}  // namespace coffer
