// SPDX-License-Identifier: MIT
// One rule for what stays resident, in two generations: memory that was free and untouched for a whole tick goes back
// at the end of that tick.
//
// The most that a program held in a tick is what it needed in that tick. So this much may be resident, held and free
// together: the most that was held in this tick and the one before, an eighth of that for holes that move, and the
// option `free_limit`:
//
//     free bytes <= free_limit() = option + 9/8 x highest held of both ticks - held
//
// At the end of a tick the sweep gives back what was free when the tick began and exceeds the option and the highest
// held of this tick. A program that grows and shrinks in each tick reaches its highest in each, and keeps its memory.
// A program that shrank for good stays below in the next tick, and the difference goes at the end of that.
//
// Only the sweep purges, with one exception: a thread that takes memory that is not resident purges if the limit is
// reached. A free cannot exceed the limit: it makes held less and free memory more by the same amount, and the limit
// falls only at the end of a tick, after the sweep. The reclaimer ends ticks while it lives. Otherwise a thread that
// frees or takes memory and finds that a tick has passed ends it, and sweeps by bounded steps.
#pragma once

#include "policy/returned.hpp"

namespace coffer {

// Count bytes of spans and large blocks that begin or end to be held. (Not called between two changes that belong
// together, as a block that moves: the sum would be their highest.)
void held_rises(usize bytes);
void held_falls(usize bytes);
// The same of slices of a chunk, of which so many bytes were free and resident before, or are now: those turn.
void slices_rise(u32 chunk, usize bytes, usize resident);
void slices_fall(u32 chunk, usize bytes, usize resident);
// What is resident behind a large block (Chunk::large_tail) was `before` bytes and is `after` now: in use as what is
// held, for it serves nobody else and is free again with the block. Followed by held_rises or held_falls, where the
// block changes.
void tail_changes(usize before, usize after);
// os::purge, for what else would count as free memory.
bool give_back_pages(void* start, usize bytes);
// The sum of all tails; and what a fork child found it to be, when it has counted the rest: what vanished threads had
// in hand, and is free now, was in use.
usize resident_tails();
void count_tails_anew(usize bytes);

// Bytes of spans, large blocks and tails.
usize held_now();
// Free bytes that may stay resident now.
usize free_limit();
// The same for the sweep that ends the tick, if `held` was held when it began: what it made free itself was idle, and
// goes, too.
usize next_free_limit(usize held);
// What free memory cannot pass: the limit, with what may wait for a system call.
usize free_bound();
// The same for coffer_check, while nobody is at work, with what steps may have passed by. Of the chunks that a step
// looks at some may have nothing left to give (Group::dirty is a hint). A step that did not find what it wanted is gone
// on with by the next one, and a round over all chunks misses nothing that was free when it began. So free memory is
// over its bound by no more than callers take in two rounds: 1/8 of the bytes of the chunks, for each caller takes less
// than 1/16 of the chunks that it looks at; 1/7 with the groups that have none. No bound if the kernel once refused
// (give_back_pages): nobody can give that back.
usize free_most();
// What may stay in any case: near a limit of the process's cgroup, and of a quiet program.
usize least_free_limit();

// When the running tick began; whether it is over by now, which reads the clock.
u64 tick_began();
bool tick_is_over(u64 began);
// Whether held is what it was when the running tick began, and never was more: what is free then nobody needed.
bool is_quiet(usize held);
// The tick that began then becomes the one before, unless another thread ended it. What is still over the limit then
// (the kernel refused, or it was not found) stays allowed for another tick.
void end_tick(u64 began);

}  // namespace coffer
