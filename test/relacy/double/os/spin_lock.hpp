// os/spin_lock.hpp for Relacy: its mutex. The orders of the lock itself are not this test's matter.
#pragma once

#include "base/atomic.hpp"

namespace coffer {

class SpinLock {
 public:
  constexpr SpinLock() = default;
  void begin() { mutex_ = new Mutex; }
  void end() { delete mutex_; }
  void lock() { mutex_->mutex.lock(RL_INFO); }
  void unlock() { mutex_->mutex.unlock(RL_INFO); }

 private:
  struct Mutex {
    rl::mutex mutex;
  };
  Mutex* mutex_ = nullptr;
};

class LockGuard {
 public:
  explicit LockGuard(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() { lock_.unlock(); }

 private:
  SpinLock& lock_;
};

}  // namespace coffer
