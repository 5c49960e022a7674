// SPDX-License-Identifier: MIT
// In place of src/os/spin_lock.hpp: a thread that waits is not scheduled, and who holds a lock is known, so that one
// that stays locked is seen at the end of the call.
#pragma once

#include "base/atomic.hpp"
#include "cpu/cpu.hpp"
#include "os/lock_guard.hpp"
#include "os/os.hpp"

namespace coffer {

extern __thread char t_lock_identity __attribute__((visibility("hidden"), tls_model("initial-exec")));

namespace trial {
// `holder` is 0, or 1 + the number of the thread that holds it.
void lock(u32* holder);
bool try_lock(u32* holder);
void unlock(u32* holder);
bool holds(const u32* holder);
bool forget_others(u32* holder);
}  // namespace trial

class SpinLock {
 public:
  void lock() { trial::lock(&holder_); }
  bool try_lock() { return trial::try_lock(&holder_); }
  void unlock() { trial::unlock(&holder_); }
  void lock_for_fork() { lock(); }
  void unlock_after_fork() { unlock(); }
  bool forget_others() { return trial::forget_others(&holder_); }
  bool is_mine() const { return trial::holds(&holder_); }

 private:
  u32 holder_ = 0;
};

using LockGuard = Guard<SpinLock>;

}  // namespace coffer
