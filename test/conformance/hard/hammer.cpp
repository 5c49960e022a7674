// SPDX-License-Identifier: MIT
#include "hard/hammer.hpp"

#include <sched.h>

#include <climits>
#include <cstdlib>
#include <cstring>

#include "harness.hpp"

namespace conformance {

Hammer::Hammer(int threads, std::size_t largest, std::size_t held) : count_(threads), largest_(largest), held_(held) {
  CHECK(threads <= kMost && held <= kMostHeld);
  for (int i = 0; i < count_; ++i) threads_[i] = start_thread(&Hammer::run, this);
}

void Hammer::stop() {
  if (stopping_.exchange(true, std::memory_order_relaxed)) return;
  go_on(0);
  for (int i = 0; i < count_; ++i) pthread_join(threads_[i], nullptr);
  for (std::atomic<void*>& place : exchange_) free(place.exchange(nullptr, std::memory_order_acquire));
}

void Hammer::go_on(unsigned long rounds) {
  const unsigned long until = this->rounds() + rounds;
  resting_.store(false, std::memory_order_relaxed);
  resting_.notify_all();
  while (this->rounds() < until) sched_yield();
}

void* Hammer::run(void* self) {
  auto* hammer = static_cast<Hammer*>(self);
  hammer->work(hammer->seeds_.fetch_add(1, std::memory_order_relaxed) + 1);
  return nullptr;
}

void Hammer::work(unsigned long seed) {
  Random random(seed);
  void* blocks[kMostHeld] = {};
  std::size_t sizes[kMostHeld] = {};
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (resting_.load(std::memory_order_relaxed)) resting_.wait(true, std::memory_order_relaxed);
    const std::size_t i = random.below(held_);
    std::size_t size = random.size();
    if (size > largest_) size = largest_;
    if (blocks[i] == nullptr) {
      blocks[i] = random.below(8) == 0 ? calloc(1, size + 8) : malloc(size + 8);
    } else {
      CHECK(holds_pattern(blocks[i], sizes[i] < 64 ? sizes[i] : 64, i), "slot %zu, size %zu", i, sizes[i]);
      if (random.below(4) == 0) {
        blocks[i] = realloc(blocks[i], size + 8);
      } else {
        std::memcpy(blocks[i], &sizes[i], 8);
        blocks[i] = exchange_[random.below(kExchange)].exchange(blocks[i], std::memory_order_acq_rel);
        free(blocks[i]);
        blocks[i] = malloc(size + 8);
      }
    }
    CHECK(blocks[i] != nullptr, "size %zu", size);
    sizes[i] = size + 8;
    fill(blocks[i], sizes[i] < 64 ? sizes[i] : 64, i);
    rounds_.fetch_add(1, std::memory_order_relaxed);
  }
  for (void* block : blocks) free(block);
}

void exercise(std::size_t count, unsigned long seed, std::size_t largest) {
  constexpr std::size_t kSlots = 64;
  Random random(seed);
  void* blocks[kSlots] = {};
  std::size_t sizes[kSlots] = {};
  for (std::size_t round = 0; round < count; ++round) {
    const std::size_t i = random.below(kSlots);
    if (blocks[i] != nullptr) CHECK(holds_pattern(blocks[i], sizes[i], i), "slot %zu, size %zu", i, sizes[i]);
    free(blocks[i]);
    sizes[i] = random.size();
    if (sizes[i] > largest) sizes[i] = largest;
    blocks[i] = malloc(sizes[i]);
    CHECK(blocks[i] != nullptr, "size %zu", sizes[i]);
    fill(blocks[i], sizes[i], i);
  }
  for (void* block : blocks) free(block);
}

pthread_t start_thread(void* (*run)(void*), void* argument, std::size_t stack) {
  if (stack < static_cast<std::size_t>(PTHREAD_STACK_MIN)) stack = static_cast<std::size_t>(PTHREAD_STACK_MIN);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  pthread_t thread;
  const int status = pthread_create(&thread, &attributes, run, argument);
  pthread_attr_destroy(&attributes);
  CHECK(status == 0, "pthread_create: %s", std::strerror(status));
  return thread;
}

}  // namespace conformance
