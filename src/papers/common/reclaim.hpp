// SPDX-License-Identifier: MIT
// What a paper keeps for good, its empty superblocks, goes back when the system refuses memory, and then the system is
// asked once more: a program that freed everything is not told that there is none.
//
// Under one lock, the last of a process to be asked for and the first to be taken. What one thread has taken out of the
// heaps and not yet given back is in no heap and not the system's; another that was refused meanwhile would find
// nothing anywhere, though nothing is in use. So it waits, and then looks for itself. The lock is held across system
// calls, as no other is: who waits for it has nothing else to do, and gives its processor away.
#pragma once

#include "os/spin_lock.hpp"

namespace coffer::papers {

class Reclaim {
 public:
  // attempt(), and where that gives nullptr, gather() and attempt() again, one thread at a time.
  template <class Attempt, class Gather>
  void* allocate(Attempt&& attempt, Gather&& gather) {
    void* block = attempt();
    if (COFFER_LIKELY(block != nullptr)) return block;
    LockGuard guard(lock_);
    // Whoever had the lock may have gathered what would do: so in any case once more.
    gather();
    return attempt();
  }
  // gather() alone.
  template <class Gather>
  bool trim(Gather&& gather) {
    LockGuard guard(lock_);
    return gather();
  }

  // Before every other lock of the paper.
  void lock_for_fork() { lock_.lock_for_fork(); }
  void unlock_after_fork() { lock_.unlock_after_fork(); }

 private:
  SpinLock lock_;
};

}  // namespace coffer::papers
