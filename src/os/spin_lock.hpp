// SPDX-License-Identifier: MIT
// A lock for critical sections that are short; docs/architecture.md names those that make a system call. It lies in os/
// because a waiter that spins in vain gives its processor away.
//
// A fork child may inherit a lock that a thread holds which it does not have. Coffer lets go of it there
// (forget_others) and makes whole what it protects (docs/design/fork.md). The papers' allocators hold all of theirs
// from before a fork until after it instead (lock_for_fork).
#pragma once

#include "base/atomic.hpp"
#include "cpu/cpu.hpp"
#include "cpu/spin_hint.hpp"
#include "os/lock_guard.hpp"
#include "os/os.hpp"

namespace coffer {

// Tells threads apart in a lock: its address differs in each.
extern __thread char t_lock_identity __attribute__((visibility("hidden"), tls_model("initial-exec")));

class SpinLock {
 public:
  void lock() {
    const uptr self = identity();
    for (;;) {
      uptr holder = 0;
      // acquire: pairs with the release in unlock.
      if (holder_.compare_exchange(holder, self, acquire, relaxed)) return;
      if (holder == self) {
        // Between fork's handlers, if these hold the lock: those of others may allocate meanwhile. Anywhere else a
        // signal handler allocates that interrupted an allocation, which no C library allows.
        COFFER_ASSERT(forks_ != 0);
        ++nested_;
        return;
      }
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
  // For who must not wait: false if another thread holds it, or this one, which a signal handler interrupted. (Between
  // fork's handlers it is taken once more, as by lock.)
  bool try_lock() {
    const uptr self = identity();
    uptr holder = 0;
    // acquire: pairs with the release in unlock. The exchange may fail for no reason, which nobody needs to know.
    if (holder_.compare_exchange(holder, self, acquire, relaxed)) return true;
    if (holder != self || forks_ == 0) return false;
    ++nested_;
    return true;
  }
  void unlock() {
    if (nested_ > 0) {
      --nested_;
      return;
    }
    // release: pairs with the acquire in lock.
    holder_.store(0, release);
  }

  // For fork: a signal handler may fork while the thread it interrupted holds this lock. That thread goes on in parent
  // and child alike and unlocks as it would have; waiting for it here would be for ever. The handler may also have
  // interrupted a fork, between its handlers: that one has the lock, and keeps it when the fork inside is done.
  void lock_for_fork() {
    // relaxed: equal only if this thread itself wrote it.
    if (holder_.load(relaxed) == identity()) {
      if (forks_ == 0) interrupted_ = true;
    } else {
      lock();
    }
    ++forks_;
  }
  // In a fork child, for a lock that fork does not take: whoever else held it is not here. True if somebody did: what
  // the lock protects may be half changed. A lock that the thread itself holds, which a signal interrupted, it keeps.
  bool forget_others() {
    // relaxed, all: the child has one thread.
    const uptr holder = holder_.load(relaxed);
    if (holder == identity() || holder == 0) return false;
    holder_.store(0, relaxed);
    nested_ = 0;
    return true;
  }
  // Whether the calling thread has it: a signal handler asks what it interrupted.
  bool is_mine() const { return holder_.load(relaxed) == identity(); }  // relaxed: equal only if it wrote it itself
  void unlock_after_fork() {
    if (--forks_ != 0) return;
    if (interrupted_) {
      interrupted_ = false;
    } else {
      unlock();
    }
  }

 private:
  static uptr identity() { return reinterpret_cast<uptr>(&t_lock_identity); }

  Atomic<uptr> holder_;       // identity of the thread that holds it; 0: nobody
  u32 nested_ = 0;            // times its holder took it again
  u16 forks_ = 0;             // calls of lock_for_fork without their unlock_after_fork
  bool interrupted_ = false;  // held by what the first of them interrupted
};

using LockGuard = Guard<SpinLock>;

}  // namespace coffer
