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
#include "span/shortage.hpp"

namespace coffer {

constexpr u32 part_of(u32 capacity, u32 shift) {
  const u32 blocks = (capacity + (1u << shift) - 1) >> shift;
  return blocks == 0 ? 1 : blocks;
}

// How many heaps share what may be kept, as a power of two, rounded up: 1, 2, 4 or more. Written by the registry
// (exchange/registry.cpp), read as a hint wherever a threshold is computed.
inline constexpr u32 kMostSharingLog2 = 2;
inline constinit Owned<u8> g_sharing_log2;

// Free blocks, on one side alone, from which on a span is reusable: f / 2 of them, f = 2 / (1 << shift), rounded up; at
// least one, at most all. Where heaps share, f / 2 over their number, but no less than kEnoughBlocks: what floating
// spans keep free adds up over heaps, at the price of more changes of spans.
inline constexpr u32 kEnoughBlocks = 16;
constexpr u32 reuse_threshold_at(u32 shift, u32 capacity, u32 sharing_log2) {
  const u32 blocks = part_of(capacity, shift);
  if (blocks <= kEnoughBlocks) return blocks;
  const u32 shared = part_of(capacity, shift + sharing_log2);
  return shared > kEnoughBlocks ? shared : kEnoughBlocks;
}
// While memory is exhausted: one.
inline u32 reuse_threshold(u32 capacity) {
  if (COFFER_UNLIKELY(is_short())) return 1;
  return reuse_threshold_at(g_span_choices.reuse_shift.get(), capacity, g_sharing_log2.get());
}
constexpr u32 half_of(u32 capacity) { return part_of(capacity, 1); }
inline constexpr u32 kDefaultReuseShift = reuse_shift(config::EmptyFraction::quarter);

// What a heap may keep free: the option `slack`, and its share of what the process may keep (half of the option
// `free_limit`) and, in partly used spans, of an eighth of what the process holds. (Hoard's invariant, too, lets a heap
// keep the fraction f of what it holds, or K superblocks.) Empty spans have a budget of their own, for a thread that
// frees all it has would else hand on, while they are still full, the spans that it empties last, and free the rest of
// their blocks as a stranger. All heaps together keep at most heaps * 2 * slack + free_limit + held / 8.
constexpr usize share_of(usize bytes, u32 heaps) { return bytes / (heaps != 0 ? heaps : 1); }
constexpr usize slack_budget(usize slack, usize free_limit, usize held, u32 heaps) {
  return slack + share_of(free_limit / 2 + held / 8, heaps);
}
constexpr usize empties_budget(usize slack, usize free_limit, u32 heaps) {
  return slack + share_of(free_limit / 2, heaps);
}

// Bytes of claimed spans that may wait for their owner to fetch them. Half of what it holds, up to kMostMail beyond the
// option: while it is at work it fetches them soon, and to take them from it costs a barrier. Where more than the
// option waits, whoever needs memory takes it at once (exchange/seizing.cpp). A slot at least, so that it can be
// divided by: what the heap held may be gone when a pusher looks.
inline constexpr usize kMostMail = usize{512} << 10;
constexpr usize mail_budget(usize option, usize held) {
  const usize budget = option + (held / 2 < kMostMail ? held / 2 : kMostMail);
  return budget > kSlotBytes ? budget : kSlotBytes;
}

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
// never off by more.
constexpr u32 recount_step(u32 capacity) { return part_of(capacity, 3); }

// What all spans of a class hold at most, by the highest of what it used (span/class_use.hpp): less than f / 2 of each
// shared span was free when the last one was made.
constexpr usize bound_of_class_at(u32 shift, usize high) { return high + divide_up(high, (usize{1} << shift) - 1); }
inline usize bound_of_class(usize high) { return bound_of_class_at(g_span_choices.reuse_shift.get(), high); }

// Whether a heap that keeps `kept` free bytes may keep `more`. Written without a difference, which would
// wrap.
constexpr bool within_slack(usize kept, usize more, usize budget) { return kept <= budget && more <= budget - kept; }

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
static_assert(claim_reusable(8, 64, 60, 10) == 14 && claim_reusable(8, 64, 8, 0) == 8);
static_assert(claim_reusable(8, 64, 64, 3) == kNoClaim);
static_assert(claim_hot(8, 64, 0) == 32 && claim_hot(8, 2, 0) == 8 && claim_hot(8, 64, 40) == 41);
static_assert(mail_budget(0, 0) == kSlotBytes && mail_budget(kSlotBytes, kSlotBytes) == kSlotBytes * 3 / 2);
static_assert(within_slack(0, 64, 64) && !within_slack(1, 64, 64) && !within_slack(65, 0, 64));

}  // namespace coffer
