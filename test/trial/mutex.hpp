// SPDX-License-Identifier: MIT
// In place of POSIX mutexes, in heaps by handle (src/latency): locks that the scheduler knows. Included before all else
// of that file.
#pragma once

#include <pthread.h>

#include "os/spin_lock.hpp"

namespace coffer::trial {

struct Mutex {
  SpinLock lock;
  Atomic<u32> entered;  // a step within the lock: what is done under it has none
};
inline int lock_mutex(Mutex* mutex) {
  mutex->lock.lock();
  mutex->entered.fetch_add(1, relaxed);  // relaxed: nothing is published
  return 0;
}
inline int unlock_mutex(Mutex* mutex) {
  mutex->lock.unlock();
  return 0;
}
// Of memory that is zero, or in a fork child, of one that the forking thread has locked.
inline int init_mutex(Mutex* mutex, const pthread_mutexattr_t*) {
  if (mutex->lock.is_mine()) mutex->lock.unlock();
  return 0;
}
inline int destroy_mutex(Mutex*) { return 0; }

}  // namespace coffer::trial

#define pthread_mutex_t coffer::trial::Mutex
#define pthread_mutex_lock coffer::trial::lock_mutex
#define pthread_mutex_unlock coffer::trial::unlock_mutex
#define pthread_mutex_init coffer::trial::init_mutex
#define pthread_mutex_destroy coffer::trial::destroy_mutex
#undef PTHREAD_MUTEX_INITIALIZER
#define PTHREAD_MUTEX_INITIALIZER \
  {                               \
  }
