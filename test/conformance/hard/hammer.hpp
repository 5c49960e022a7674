// SPDX-License-Identifier: MIT
// Threads that allocate and free without pause while a case does something hard beside them.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>

namespace conformance {

class Hammer {
 public:
  // Each thread holds up to `held` blocks of up to `largest` bytes. The threads also hand blocks to one another. Beside
  // forks few and small blocks are better: after each fork every page that is written is copied first.
  explicit Hammer(int threads, std::size_t largest = 3'000'000, std::size_t held = 256);
  ~Hammer() { stop(); }
  Hammer(const Hammer&) = delete;
  Hammer& operator=(const Hammer&) = delete;

  void stop();
  // Each thread rests from the end of its round on, and leaves the processors to others, until go_on.
  void rest() { resting_.store(true, std::memory_order_relaxed); }
  // Returns when all threads together have done `rounds` more: each is then anywhere in one.
  void go_on(unsigned long rounds);
  // Rounds that all threads together have done; waiting for it to move shows that nobody hangs.
  unsigned long rounds() const { return rounds_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kMost = 64;
  static constexpr std::size_t kMostHeld = 256;
  static constexpr int kExchange = 64;
  static void* run(void* self);
  void work(unsigned long seed);

  pthread_t threads_[kMost];
  int count_;
  std::size_t largest_;
  std::size_t held_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> resting_{false};
  std::atomic<unsigned long> rounds_{0};
  std::atomic<unsigned long> seeds_{0};
  // Blocks on their way from one thread to another; the first word holds the block's size.
  std::atomic<void*> exchange_[kExchange] = {};
};

// Allocates, checks and frees `count` blocks of mixed sizes: what a child of a fork or a fresh thread must be able to
// do.
void exercise(std::size_t count, unsigned long seed, std::size_t largest = 200'000);

// Starts a thread with a small stack; ends the process if it cannot.
pthread_t start_thread(void* (*run)(void*), void* argument, std::size_t stack = 256 * 1024);

}  // namespace conformance
