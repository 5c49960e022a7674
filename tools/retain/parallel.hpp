// SPDX-License-Identifier: MIT
// Work that falls into pieces, by some threads.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "base/base.hpp"

namespace coffer::retain {

// Calls work(i, thread) for each i below `pieces`; the threads are numbered from 0.
template <class Work>
void in_parallel(unsigned threads, usize pieces, Work&& work) {
  std::atomic<usize> next{0};
  const auto run = [&](unsigned thread) {
    // relaxed: the pieces are independent; what they wrote is seen after the join.
    for (usize i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) work(i, thread);
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads && i < pieces; ++i) helpers.emplace_back(run, i);
  run(0);
  for (std::thread& one : helpers) one.join();
}

}  // namespace coffer::retain
