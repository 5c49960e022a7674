// SPDX-License-Identifier: MIT
// Watching a process from outside: counts of what heaps take, and a page of figures (observe/shared_page.hpp).
//
// Without a viewer it costs nothing: the usual paths ask in cells that they read anyway (g_pending, g_unusual). With a
// viewer, malloc takes its slow path for each list of blocks, and each slow path updates the page:
//
//   what is counted                    when                                                 how exact
//   held, free, purges (now)           a thread comes by and one of them changed            exact then
//   live, by class and heap (a copy)   the same, kStep after the last, or kRest times as    exact but for lists of hot
//                                      long as that took; and when a signal or a reader     spans of other threads
//                                      asks: the reclaimer answers readers
//   allocated blocks                   a heap takes a list of blocks                        what is on lists counts
//
// A program that does nothing shows its figures of the last slow path, at most a step before it stopped, until a
// viewer asks. Under `share` the reclaimer lives as long as the page does. At each of its steps it checks whether a
// viewer asked (SharedPage::is_asked): one load four times a second.
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
