// SPDX-License-Identifier: MIT
// How much memory a program takes back after it gave it up: its breath. What comes back soon is worth keeping resident,
// everything else is not.
//
// Held memory goes up and down. A rise counts from the lowest point since the last peak, and only up to that peak: a
// first growth is no breath. The breath is the largest rise of the last second or so, in four ticks of a quarter second
// and the one that runs; a swing that lasts longer counts with what of it lies within a second. All of it is learnt in
// passing, by relaxed loads and rare stores; a lost update is made good by the next rise.
//
// Until it is known what comes back, a fall may wait for its rise: for one to two ticks all that was given up stays,
// while there is a reclaimer that will take what nobody asked for. The first falls of a program would else be purged
// and brought in again, and a program that ends soon would work for nobody.
//
// Held may also stay as it is while holes move: where large runs of many sizes come and go, more is free between them
// than a breath would keep, and what is purged here is brought in again there. So what was purged and then brought in
// again (the returns) of the last second may stay beside the breath, up to 1/8 of the recent peak.
#pragma once

#include "pool/reclaimer.hpp"
#include "size_class/placement.hpp"

namespace coffer {

inline constexpr u64 kTickNs = kStepNs;  // so that the reclaimer wakes once in each tick
// A little more than the limit may wait, so that small frees share a system call.
inline constexpr usize kFreeBatch = 64 * kCarvePage;

// Count bytes of spans and large blocks that begin or end to be held. (Not called between two changes that belong
// together, as a block that moves: that would look like a breath.)
void held_rises(usize bytes);
void held_falls(usize bytes);
// The same of slots of a chunk, of which so many bytes were free and resident before, or are now: those turn.
void slots_rise(u32 chunk, usize bytes, usize resident);
void slots_fall(u32 chunk, usize bytes, usize resident);
// What is resident behind a large block (Chunk::large_tail) was `before` bytes and is `after` now: in use as what is
// held, for it serves nobody else and is free again with the block. Followed by held_rises or held_falls, where the
// block changes.
void tail_changes(usize before, usize after);
// The sum of all tails; and what a fork child found it to be.
usize resident_tails();
void count_tails_anew(usize bytes);

// A free had to purge so many bytes; so many were taken that are not resident.
void note_purged(usize bytes);
void note_clean(usize bytes);

// Free bytes that may stay resident now: the option plus the breath or a fresh fall, and never so much that what is
// held, with the tails of large blocks, and what is free together pass the recent peak of held and tails by more than
// the option; and the returns, at most 1/8 of that peak. Near a limit of the process's cgroup, least_free_limit. Reads
// the clock.
usize free_limit();
// `dirty` free bytes are judged by `limit`: notes it for free_bound.
void note_limit(usize limit, usize dirty);
// What free memory cannot pass: the limit, with what may wait for a system call; or an earlier, higher limit, while
// free memory has not been seen within a later one since: it goes back by bounded steps, with the next frees or by the
// reclaimer.
usize free_bound();
// What may stay in any case.
usize least_free_limit();

}  // namespace coffer
