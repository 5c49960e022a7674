// SPDX-License-Identifier: MIT
// What is kept: how much a heap may keep free, hold back or leave in its box, and what is too little to be worth work.
#pragma once

#include "base/base.hpp"
#include "size_class/placement.hpp"

namespace coffer {

// Bytes that are not worth work: that much free memory stays resident near a limit of the process's cgroup, so much
// waste is no reason to mix spans, and so much free memory at hand is reason enough not to. Chosen by the sweep, for
// each use in spans by itself: with half and with twice the ten phases are the same.
inline constexpr usize kNegligible = usize{256} << 10;
// Part, 1/8, that is small against the whole: what is live of a span that is converted; mixed spans beyond which memory
// is full of holes; what a heap may keep free of what it holds in partly used spans; what is left below a limit that is
// near. Chosen by the sweep, for each of these but the last by itself: with 1/4 and with 1/16 no row differs.
inline constexpr u32 kSmallPart = 8;
// Records that one call looks at: spans to convert, spans of a list whose holes may be too small, holes of a slice to
// carved from, lists with spans that wait for a look at their pages. Chosen by the ten phases: with 2 they hold 0.005
// more, with 32 as much as with 8 (docs/design/mixed-spans.md); with half and with twice, for each use by itself, no
// row differs.
inline constexpr u32 kLooks = 8;

// Part, 1/2, of the option `free_limit` that all heaps may keep free. Chosen by the breathing program:
// with all of it 26 % more page faults a breath; with a quarter no row differs.
inline constexpr u32 kFreeLimitShare = 2;
// What a heap may keep free: the option `slack`, its share of what the process may keep, and, in partly used spans, an
// eighth of what it holds (paper 1, section 3.2: a heap may keep the fraction f of what it holds, or K superblocks);
// half of it while it is alone, for then nobody else could use that, and a thread that frees much in no order would
// free the rest of the spans that it gives up as a stranger. Chosen by a million blocks of 48 bytes freed at random:
// 104 ns each with an eighth, 45 with half, 44 without a limit. Empty spans have a budget of their own, for a thread
// that frees all it has would else hand on, while they are still full, the spans that it empties last, and free the
// rest of their blocks as a stranger. All heaps together keep at most heaps * 2 * slack + free_limit + held / 8, once
// each has shed what it kept when there were fewer, or when it held more (shed_surplus, shed_down); coffer_check goes
// by a heap that is alone, and by what it holds now.
constexpr usize share_of(usize bytes, u32 heaps) { return bytes / (heaps != 0 ? heaps : 1); }
constexpr usize heaps_share_of(usize free_limit, u32 heaps) { return share_of(free_limit / kFreeLimitShare, heaps); }
constexpr usize empties_budget(usize slack, usize share) { return slack + share; }
constexpr usize slack_budget(usize slack, usize share, usize held, bool alone) {
  return slack + share + held / (alone ? 2 : kSmallPart);
}

// Bytes of mail that may wait beyond the option `slack`. Chosen by the simulation: with half, Larson and producers
// and consumers are the same.
inline constexpr usize kMostMail = usize{512} << 10;
// Bytes of claimed spans that may wait for their owner to fetch them. Half of what it holds beyond the option, up to
// kMostMail or an eighth of what it holds: while it is at work it fetches them soon, and to take them from it costs a
// barrier (430 to 640 a run of bench/suite/tails without the eighth, 50 with it). Where more than the option waits,
// whoever needs memory takes it at once (exchange/seizing.cpp). A slice at least, so that it can be divided by: what
// the heap held may be gone when a pusher looks.
constexpr usize mail_budget(usize option, usize held) {
  const usize most = held / kSmallPart > kMostMail ? held / kSmallPart : kMostMail;
  const usize budget = option + (held / 2 < most ? held / 2 : most);
  return budget > kSliceBytes ? budget : kSliceBytes;
}

// Whether a heap that keeps `kept` free bytes may keep `more`. Written without a difference, which would
// wrap.
constexpr bool within_slack(usize kept, usize more, usize budget) { return kept <= budget && more <= budget - kept; }

static_assert(mail_budget(0, 0) == kSliceBytes && mail_budget(kSliceBytes, kSliceBytes) == kSliceBytes * 3 / 2);
static_assert(within_slack(0, 64, 64) && !within_slack(1, 64, 64) && !within_slack(65, 0, 64));

}  // namespace coffer
