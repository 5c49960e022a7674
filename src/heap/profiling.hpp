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

#include "heap/heap.hpp"
#include "heap/watching.hpp"

namespace coffer {

extern Atomic<u32> g_live_samples __attribute__((visibility("hidden")));

// A block for a request that is due to be sampled; nullptr: it is not. To be asked before the class's list is, while
// lists are sampled. The block's content is anything.
void* sample_small(usize size, ClassIndex size_class, usize alignment);
// A large block was allocated, while lists are sampled.
void sample_large(void* block, usize size);
// The block is about to be freed.
void forget_sample_slow(void* block);
inline void forget_sample(void* block) {
  // relaxed: whoever has a sampled block has it from after it was counted.
  if (COFFER_UNLIKELY(g_live_samples.load(relaxed) != 0)) forget_sample_slow(block);
}
// A large block that changed its size, and perhaps its place.
void sample_resized(void* before, void* after, usize size);

// Blocks of the class that may be taken before the one that is to be sampled.
u32 blocks_before_sample(Watch* watch, ClassIndex size_class);
// Grows when sampling is turned on: what was drawn for another mean is drawn anew.
extern Atomic<u32> g_sample_generation __attribute__((visibility("hidden")));
inline constexpr u32 kSampleUnit = 16;  // bytes; Watch::left counts such, and 1 more than it means: 0 is nothing drawn
// The heap is about to take so many blocks of its hot span. Counts them and says true, if the one that is to be sampled
// is not among them; false: nothing is counted, it may be.
COFFER_INLINE bool pass_unsampled(const Heap* heap, ClassIndex size_class, const Span* span, u32 count) {
  Watch* watch = heap->watch.get();
  // relaxed: a mean that changed shows a little later.
  if (watch == nullptr || watch->generation.get() != g_sample_generation.load(relaxed)) return false;
  const u64 units = u64{count} * (span->block_bytes.get() / kSampleUnit);
  const u32 left = watch->left[size_class].get();
  if (left <= units) return false;  // or nothing is drawn
  watch->left[size_class].set(static_cast<u32>(left - units));
  watch->blocks[size_class].set(watch->blocks[size_class].get() + count);
  return true;
}
void count_taken(Watch* watch, ClassIndex size_class, u32 count);
void count_returned(Watch* watch, ClassIndex size_class, u32 count);

// Turns sampling on, with so many bytes between samples (0: what the option says), and off. Blocks that were sampled
// stay known until they are freed.
void profile_start(usize mean);
void profile_stop();
// Writes the profile to a file; nullptr: one that gets a name. false: it cannot be written; said on stderr, if it has
// no name from the caller.
bool profile_dump(const char* path);
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
