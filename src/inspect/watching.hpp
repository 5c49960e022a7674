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

#include "exchange/watch.hpp"
#include "observe/shared_page.hpp"

namespace coffer {

// The heap's; nullptr: there is no memory for it.
Watch* watch_of(const Heap* heap);

// The part of the beginning that has to be there before watching_start (signals): when the library is loaded.
void watching_prepare();
// The process ends: nothing is left behind.
void watching_end();

// Lists are watched for samples, too (profiling.cpp).
void begin_sampling();
void end_sampling();

// Offers the page, or writes it anew. Any thread, any time, also in a signal handler.
void share_now();
// Where the page is; nullptr: there is none.
const char* shared_path();

}  // namespace coffer
