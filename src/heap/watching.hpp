// SPDX-License-Identifier: MIT
// Watching a process from outside: what heaps take is counted, and a page of figures is shown
// (observe/shared_page.hpp).
//
// Nothing of this costs anything while nobody watches: what the usual paths ask about it, they ask in a cell that they
// look at anyway (g_pending, g_unusual). While somebody does, malloc takes its slow path for each list of blocks,
// and each slow path comes by here:
//
//   what is counted                    when                                                 how exact
//   held, free, large, purges (now)    a thread comes by and one of them changed            exact then
//   live, by class and heap (a copy)   the same, kStep after the last, or kRest times as    exact but for lists of hot
//                                      long as that took; and when a signal asks, or a      spans of other threads
//                                      reader, whom the reclaimer answers
//   allocated blocks                   a heap takes a list of blocks                        what is on lists counts
//
// So a program that does nothing shows what was so when it last came by, at most a step before it stopped, until
// somebody asks. Under `share` the reclaimer lives as long as the page does and looks at each of its steps whether
// somebody did (SharedPage::is_asked): one load four times a second.
#pragma once

#include "heap/heap.hpp"
#include "observe/shared_page.hpp"

namespace coffer {

// What a heap's thread counts, by the heap's index; apart from the heap, so that nobody has it who is not watched.
struct Watch {
  Owned<u64> blocks[kClasses];  // taken for malloc, less what was returned
  Owned<u32> left[kClasses];    // until the next sample, and of which generation that is (profiling.cpp)
  Owned<u32> generation;
};
// The heap's; nullptr: there is no memory for it.
Watch* watch_of(const Heap* heap);

// Blocks that the heap may take of a class at once; at least 1.
u32 unwatched_blocks(const Heap* heap, ClassIndex size_class);
// The heap took blocks for malloc, or gave some back that malloc did not use. Its thread, while lists are watched.
void blocks_taken(Heap* heap, ClassIndex size_class, u32 count);
void blocks_returned(Heap* heap, ClassIndex size_class, u32 count);
// A large block was allocated.
void large_taken(void* block, usize bytes);

// Begins what the options ask for, at the end of the process's start; the part that has to be there before (signals),
// when the library is loaded.
void watching_start();
void watching_prepare();
// In a fork child: the parent's page is not ours; if there was one, the child makes its own when it comes by.
void watching_after_fork();
// The process ends: nothing is left behind.
void watching_end();

// Lists are watched for samples, too (profiling.cpp).
void begin_sampling();
void end_sampling();

// Offers the page, or writes it anew. Any thread, any time, also in a signal handler.
void share_now();
// What the reclaimer does at each waking: makes a fork child's page, and writes a copy when a reader asks for one. It
// stays as long as the option `share` is to be answered; but not where the process gave up rights that this thread has:
// the next slow path starts another.
bool answer_readers();
// Where the page is; nullptr: there is none.
const char* shared_path();

}  // namespace coffer
