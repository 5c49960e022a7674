// SPDX-License-Identifier: MIT
#include "os/spin_lock.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace coffer {
namespace {

// Many records have several. (Not beside the class: Relacy's doubles of atomics are larger.)
static_assert(sizeof(SpinLock) <= 2 * sizeof(u64));

TEST(SpinLock, ForkPassesOverALockOfItsOwnThread) {
  SpinLock lock;
  lock.lock();
  // As in a signal handler that interrupted the critical section: it must not wait, nor unlock.
  lock.lock_for_fork();
  lock.unlock_after_fork();
  std::thread other;
  bool entered = false;
  other = std::thread([&] {
    LockGuard guard(lock);
    entered = true;
  });
  EXPECT_FALSE(entered);  // a race only if the lock is broken: then ThreadSanitizer tells
  lock.unlock();
  other.join();
  EXPECT_TRUE(entered);
}

// A signal handler forks while the thread is between the handlers of a fork: the inner one's end is not the outer's.
TEST(SpinLock, AForkInsideAForkLeavesTheLockToTheOuter) {
  SpinLock lock;
  lock.lock_for_fork();
  lock.lock_for_fork();
  lock.unlock_after_fork();
  lock.lock();  // other libraries' handlers may allocate
  lock.unlock();
  bool free = true;
  std::thread([&] { free = lock.try_lock(); }).join();
  EXPECT_FALSE(free);
  lock.unlock_after_fork();
  std::thread([&] {
    free = lock.try_lock();
    if (free) lock.unlock();
  }).join();
  EXPECT_TRUE(free);
}

TEST(SpinLock, ForkTakesALockThatIsFree) {
  SpinLock lock;
  u64 plain = 0;
  lock.lock_for_fork();
  std::thread other([&] {
    LockGuard guard(lock);
    plain += 1;
  });
  EXPECT_EQ(plain, 0u);
  lock.unlock_after_fork();
  other.join();
  EXPECT_EQ(plain, 1u);
}

TEST(SpinLock, OneAtATimeSeesWhatTheLastOneWrote) {
  constexpr u64 kThreads = 4, kCount = 20'000;
  SpinLock lock;
  u64 plain[2] = {0, 0};
  const auto work = [&] {
    for (u64 i = 0; i < kCount; ++i) {
      LockGuard guard(lock);
      ASSERT_EQ(plain[0], plain[1]);
      plain[0] += 1;
      plain[1] += 1;
    }
  };
  std::vector<std::thread> threads;
  for (u64 i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(plain[0], kThreads * kCount);
}

}  // namespace
}  // namespace coffer
