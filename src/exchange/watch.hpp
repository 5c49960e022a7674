// SPDX-License-Identifier: MIT
// What malloc and free tell whoever watches them. Declared here, by those who call; inspect/, which stands above them,
// defines it (watching.cpp and profiling.cpp, whose headers say what it is for). So the way of a block includes nothing
// of inspection. These are plain functions and no pointers to functions: what can be written in a process's memory must
// not say where its malloc goes.
#pragma once

#include "exchange/record.hpp"

namespace coffer {

// --- Counting (inspect/watching.cpp). ---

// What a heap's thread counts, by the heap's index; apart from the heap, so that nobody has it who is not watched.
struct Watch {
  Owned<u64> blocks[kClasses];  // taken for malloc, less what was returned
  Owned<u32> left[kClasses];    // until the next sample, and of which generation that is (profiling.cpp)
  Owned<u32> generation;
};

// Blocks that the heap may take of a class at once; at least 1.
u32 unwatched_blocks(const Heap* heap, ClassIndex size_class);
// The heap took blocks for malloc, or gave some back that malloc did not use. Its thread, while lists are watched.
void blocks_taken(Heap* heap, ClassIndex size_class, u32 count);
void blocks_returned(Heap* heap, ClassIndex size_class, u32 count);
// A large block was allocated.
void large_taken(void* block, usize bytes);

// Begins what the options ask for, at the end of the process's start.
void watching_start();
// Whoever takes a slow path while the process is watched comes by.
void watching_comes_by();
// In a fork child: the parent's page is not ours; if there was one, the child makes its own when it comes by.
void watching_after_fork();
// What the reclaimer does at each waking: makes a fork child's page, and writes a copy when a reader asks for one. It
// stays as long as the option `share` is to be answered; but not where the process gave up rights that this thread has:
// the next slow path starts another.
bool answer_readers();

// --- Sampling (inspect/profiling.cpp): for the heap profile, and for guards. ---

// A block for a request that is due to be sampled; nullptr: it is not, or none could be had. To be asked before the
// class's list is, while lists are sampled. The block's content is anything.
void* sample_small(usize size, ClassIndex size_class, usize alignment);
// A large block with guards, counted as large_taken does, if it is due to have them; all of it is zero.
void* guard_large(usize size, usize alignment);
extern Atomic<u32> g_live_samples __attribute__((visibility("hidden")));
// The block is about to be freed.
void forget_sample_slow(void* block);
inline void forget_sample(void* block) {
  // relaxed: whoever has a sampled block has it from after it was counted.
  if (COFFER_UNLIKELY(g_live_samples.load(relaxed) != 0)) forget_sample_slow(block);
}
// A large block that changed its size, and perhaps its place.
void sample_resized(void* before, void* after, usize size);

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

}  // namespace coffer
