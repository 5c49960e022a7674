// SPDX-License-Identifier: MIT
// papers/common/counted_lock.hpp for Relacy: the count, which is written under the lock, stands for all that the lock
// guards. Relacy reports a race on it if what one holder wrote need not be there for the next.
#pragma once

#include "os/spin_lock.hpp"

namespace coffer::papers {

class CountedLock {
 public:
  void lock() {
    lock_.lock();
    taken_ = taken_ + 1;
  }
  bool try_lock() {
    if (!lock_.try_lock()) return false;
    taken_ = taken_ + 1;
    return true;
  }
  void unlock() { lock_.unlock(); }
  void lock_for_fork() { lock_.lock_for_fork(); }
  void unlock_after_fork() { lock_.unlock_after_fork(); }
  u64 taken() const { return taken_; }

 private:
  SpinLock lock_;
  Plain<u64> taken_;
};

}  // namespace coffer::papers
