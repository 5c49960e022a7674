// SPDX-License-Identifier: MIT
// A spin lock that counts how often it was taken: paper 1 counts its costs in lock acquisitions (section 4.2).
#pragma once

#include "os/spin_lock.hpp"

namespace coffer::papers {

class CountedLock {
 public:
  void lock() {
    lock_.lock();
    taken_.set(taken_.get() + 1);
  }
  // false: another thread holds it; that counts as nothing.
  bool try_lock() {
    if (!lock_.try_lock()) return false;
    taken_.set(taken_.get() + 1);
    return true;
  }
  void unlock() { lock_.unlock(); }

  void lock_for_fork() { lock_.lock_for_fork(); }
  void unlock_after_fork() { lock_.unlock_after_fork(); }

  u64 taken() const { return taken_.get(); }

 private:
  SpinLock lock_;
  Owned<u64> taken_;  // written under the lock
};

}  // namespace coffer::papers
