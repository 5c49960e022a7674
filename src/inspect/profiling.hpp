// SPDX-License-Identifier: MIT
// The heap profile: which call stacks allocated what, and what of it is live, from a sample of the allocations.
//
// Which block is sampled: every heap has, for each class, a number of bytes until the next sample, drawn so that each
// byte is chosen with the same probability and independently of all others (observe/sampling.hpp). While sampling is
// on, a heap takes from a span no more blocks than come before the chosen byte (unwatched_blocks), so that malloc finds
// its list empty at the very block that is to be sampled, and comes here. What it takes is subtracted, what it gives
// back unused is added again. So malloc's fast path knows nothing of it, on or off.
//
// How a sampled block is known at free: it lies where every free takes the slow path anyway, in a mixed span, or as a
// large block; and there a table is asked, while there are samples. All others are freed as ever.
#pragma once

#include "exchange/watch.hpp"

namespace coffer {

// A large block was allocated, while lists are sampled.
void sample_large(void* block, usize size);
// Blocks of the class that may be taken before the one that is to be sampled.
u32 blocks_before_sample(Watch* watch, ClassIndex size_class);
void count_taken(Watch* watch, ClassIndex size_class, u32 count);
void count_returned(Watch* watch, ClassIndex size_class, u32 count);

// Turns sampling on, with so many bytes between samples (0: what the option says), and off. Blocks that were sampled
// stay known until they are freed.
void profile_start(usize mean);
void profile_stop();
// Guards one block in so many bytes from now on (guard/guard.hpp); 0: none.
void guards_start(usize mean);
// Writes the profile to a file; nullptr: one that gets a name. false: it cannot be written; said on stderr, if it has
// no name from the caller.
bool profile_dump(const char* path);
// Writes it into an open file; at any moment of a thread, as in a signal handler. busy: somebody has the samples, maybe
// the thread itself, which was interrupted.
enum class Write : u32 { done = 1, failed, busy };
Write profile_write(int file);
// Prints what is live, the stacks with most of it first.
void print_leaks();

// As in watching.hpp.
void profiling_prepare();
void profiling_start();
void profiling_end();
void profiling_after_fork();  // in the child

class Samples;
const Samples& profile_samples();

// For tests: what is drawn from now on follows from this number alone.
void seed_samples(u64 seed);

}  // namespace coffer
