// A lock for short critical sections that make no system call. It lies in os/ because a waiter that spins in vain
// gives its processor away. fork_prepare takes every lock, so that a child never inherits one that is held by a thread
// it does not have.
#pragma once

#include "base/atomic.hpp"
#include "cpu/cpu.hpp"
#include "os/os.hpp"

namespace coffer {

// Tells threads apart in a lock: its address differs in each.
extern __thread char t_lock_identity __attribute__((visibility("hidden"), tls_model("initial-exec")));

class SpinLock {
 public:
  void lock() {
    const uptr self = identity();
    for (;;) {
      uptr nobody = 0;
      // acquire: pairs with the release in unlock.
      if (holder_.compare_exchange(nobody, self, acquire, relaxed)) return;
      // relaxed: only a reason to try again.
      for (int spins = 0; holder_.load(relaxed) != 0; ++spins) {
        if (spins < 64) {
          spin_hint();
        } else {
          os::yield();
        }
      }
    }
  }
  void unlock() {
    // release: pairs with the acquire in lock.
    holder_.store(0, release);
  }

  // For fork: a signal handler may fork while the thread it interrupted holds this lock. That thread goes on in parent
  // and child alike and unlocks as it would have; waiting for it here would be for ever.
  void lock_for_fork() {
    // relaxed: equal only if this thread itself wrote it.
    if (holder_.load(relaxed) == identity()) {
      interrupted_ = true;
    } else {
      lock();
    }
  }
  void unlock_after_fork() {
    if (interrupted_) {
      interrupted_ = false;
    } else {
      unlock();
    }
  }

 private:
  static uptr identity() { return reinterpret_cast<uptr>(&t_lock_identity); }

  Atomic<uptr> holder_;       // identity of the thread that holds it; 0: nobody
  bool interrupted_ = false;  // between lock_for_fork and unlock_after_fork
};

class LockGuard {
 public:
  explicit LockGuard(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace coffer
