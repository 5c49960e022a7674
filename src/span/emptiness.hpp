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

// Free blocks, on one side alone, from which on a span is reusable: f / 2 of them, f = 2 / (1 << shift), rounded up. At
// least one, at most all.
constexpr u32 reuse_threshold_at(u32 shift, u32 capacity) {
  const u32 blocks = (capacity + (1u << shift) - 1) >> shift;
  return blocks == 0 ? 1 : blocks;
}
inline u32 reuse_threshold(u32 capacity) { return reuse_threshold_at(g_span_choices.reuse_shift.get(), capacity); }
inline constexpr u32 kDefaultReuseShift = reuse_shift(config::EmptyFraction::quarter);

// What a heap may keep free: the option, plus 1/16 of what it holds (Hoard's invariant, too, lets a heap keep a
// fraction of what it holds, or K superblocks). With f = 1/4 in its floating spans that is at most 5/16 of a heap's
// bytes: held <= (live + option + hot spans + frees since the last count) / (11/16), 1.45 times what is live.
constexpr usize slack_budget(usize option, usize held) { return option + held / 16; }

// Local frees of a reusable span after which its free bytes are counted anew: an eighth of it, so that the slack is
// never off by more.
constexpr u32 recount_step(u32 capacity) { return reuse_threshold_at(3, capacity); }

// Whether a heap that keeps `kept` free bytes may keep `more`. Written without a difference, which would
// wrap.
constexpr bool within_slack(usize kept, usize more, usize budget) { return kept <= budget && more <= budget - kept; }

static_assert(reuse_threshold_at(kDefaultReuseShift, 8) == 1 && reuse_threshold_at(kDefaultReuseShift, 9) == 2);
static_assert(reuse_threshold_at(kDefaultReuseShift, 2048) == 256 && reuse_threshold_at(kDefaultReuseShift, 1) == 1);
static_assert(reuse_threshold_at(reuse_shift(config::EmptyFraction::half), 2048) == 512);
static_assert(reuse_threshold_at(reuse_shift(config::EmptyFraction::sixteenth), 2048) == 64);
static_assert(within_slack(0, 64, 64) && !within_slack(1, 64, 64) && !within_slack(65, 0, 64));

}  // namespace coffer
