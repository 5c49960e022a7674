// SPDX-License-Identifier: MIT
// In place of src/os/spin_lock.hpp: a thread that waits is not scheduled, instead of trying again and again.
#pragma once

#include "base/atomic.hpp"
#include "cpu/cpu.hpp"
#include "os/lock_guard.hpp"
#include "os/os.hpp"

namespace coffer {

extern __thread char t_lock_identity __attribute__((visibility("hidden"), tls_model("initial-exec")));

class SpinLock {
 public:
  void lock() { schedule::lock(&held_); }
  bool try_lock() {
    if (held_) return false;
    schedule::lock(&held_);
    return true;
  }
  void unlock() { held_ = false; }
  void lock_for_fork() { lock(); }
  void unlock_after_fork() { unlock(); }
  bool forget_others() { return false; }
  bool is_mine() const { return held_; }

 private:
  bool held_ = false;
};

using LockGuard = Guard<SpinLock>;

}  // namespace coffer
