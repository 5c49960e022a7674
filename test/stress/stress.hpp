// SPDX-License-Identifier: MIT
// The scenarios, each bounded by a count of operations. What they share: every block carries a pattern that whoever
// frees it verifies; at the end all blocks are free, all threads have ended, and the allocator is checked.
#pragma once

#include <atomic>
#include <cstdint>

#include "support/build.hpp"

namespace coffer::test {

struct Load {
  std::uint64_t seed;
  std::uint64_t percent;  // of the usual number of operations

  // ThreadSanitizer makes everything ten to thirty times slower.
  std::uint64_t scaled(std::uint64_t usual) const {
    const std::uint64_t count = usual * percent / 100 / (kThreadSanitizer ? 10 : 1);
    return count > 0 ? count : 1;
  }
};

void producer_consumer(const Load& load);
void ring(const Load& load);
void thread_churn(const Load& load);
void thread_exit(const Load& load);
void same_span(const Load& load);
void asymmetric(const Load& load);
void at_the_limit(const Load& load);
void fork_under_load(const Load& load);

// All threads have ended and no block is held.
void check_all_free();

// Threads meet here, again and again, without a system call: what follows happens at once.
class Meeting {
 public:
  explicit Meeting(unsigned threads) : threads_(threads) {}
  void wait();

 private:
  const unsigned threads_;
  std::atomic<unsigned> arrived_{0};
  std::atomic<unsigned> round_{0};
};

}  // namespace coffer::test
