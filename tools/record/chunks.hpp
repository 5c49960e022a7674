// SPDX-License-Identifier: MIT
// The chunks that a thread's records go to, and the tagged lists that what is free waits in.
#pragma once

#include "record/recorder.hpp"

namespace coffer::record {

// Takes the first element off a tagged list; index + 1, or 0. `next(index)` is an element's link. acquire: the element
// is as the one who put it there left it (release); acq_rel: and the next taker sees ours.
template <class Link>
u32 pop(std::atomic<u64>& list, u32 limit, Link next) {
  u64 seen = list.load(std::memory_order_acquire);
  for (;;) {
    const u32 first = static_cast<u32>(seen);
    if (first == 0 || first > limit) return 0;
    const u64 rest = ((seen >> 32) + 1) << 32 | next(first - 1).load(std::memory_order_relaxed);
    if (list.compare_exchange_weak(seen, rest, std::memory_order_acq_rel, std::memory_order_acquire)) return first;
  }
}

template <class Link>
void push(std::atomic<u64>& list, u32 index, Link next) {
  u64 seen = list.load(std::memory_order_relaxed);
  do {
    next(index).store(static_cast<u32>(seen), std::memory_order_relaxed);
  } while (!list.compare_exchange_weak(seen, ((seen >> 32) + 1) << 32 | (index + 1), std::memory_order_acq_rel,
                                       std::memory_order_relaxed));
}

void count_lost(trace::Lost why);
// The thread's chunk is the collector's from here on.
void hand_in(Thread* thread);
// Hands the thread's chunk in and takes another, for which it waits if the collector is behind. false: nobody takes
// records any more. With signals blocked.
bool next_chunk(Thread* thread);

}  // namespace coffer::record
