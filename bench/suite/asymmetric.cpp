// SPDX-License-Identifier: MIT
// Half of the threads only allocate, the other half only free: blocks travel in batches, each producer's to any
// consumer, and all memory has to come back from threads that never need any. One thread plays both parts in turn.
// An operation is a block: malloc, hand-over, free.
#include "suite.hpp"

namespace {

constexpr size_t kMost = 4'096;

struct State {
  size_t batch, batches, low, high;
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t change = PTHREAD_COND_INITIALIZER;
  void*** queue;  // a stack of batches; producers wait when `limit` are in it
  size_t queued = 0, limit = 0, taken = 0, all = 0;
};

void put(State& state, void** batch) {
  pthread_mutex_lock(&state.lock);
  while (state.queued == state.limit) pthread_cond_wait(&state.change, &state.lock);
  state.queue[state.queued++] = batch;
  pthread_cond_broadcast(&state.change);
  pthread_mutex_unlock(&state.lock);
}

// Null: all batches were taken.
void** take(State& state) {
  pthread_mutex_lock(&state.lock);
  while (state.queued == 0 && state.taken < state.all) pthread_cond_wait(&state.change, &state.lock);
  void** batch = nullptr;
  if (state.taken < state.all) {
    batch = state.queue[--state.queued];
    ++state.taken;
  }
  pthread_cond_broadcast(&state.change);
  pthread_mutex_unlock(&state.lock);
  return batch;
}

// The batch is a block itself, with its blocks' addresses; each block has its size in its first and last byte.
void** make_batch(const State& state, suite::Random& random) {
  void** batch = static_cast<void**>(suite::allocate(state.batch * sizeof(void*)));
  for (size_t i = 0; i < state.batch; ++i) {
    size_t size = random.between(state.low, state.high);
    unsigned char* block = static_cast<unsigned char*>(suite::allocate(size));
    memcpy(block, &size, sizeof size);
    block[size - 1] = static_cast<unsigned char>(size);
    batch[i] = block;
  }
  return batch;
}

uint64_t free_batch(const State& state, void** batch) {
  uint64_t sum = 0;
  for (size_t i = 0; i < state.batch; ++i) {
    unsigned char* block = static_cast<unsigned char*>(batch[i]);
    size_t size;
    memcpy(&size, block, sizeof size);
    suite::require(size <= state.high && block[size - 1] == static_cast<unsigned char>(size), "a block was damaged");
    sum += suite::mix(size);
    suite::release(block);
  }
  suite::release(batch);
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "asymmetric", "of no paper: snmalloc's case, remote frees only",
                 "some threads only allocate, the others only free, in batches");
  State state{};
  size_t threads = run.threads(2);
  state.low = run.number("low", 16, "bytes of the smallest block", 9);
  state.high = run.number("high", 1'024, "bytes of the largest block", 9, 1 << 20);
  state.batch = run.number("batch", 1'000, "blocks that are handed over at once", 1, kMost);
  state.limit = run.number("queue", 32, "batches that may wait");
  size_t operations = run.scaled("operations", 10'000'000, "blocks of all threads together");
  if (state.low > state.high) run.reject("low is above high");
  if (threads > 1 && threads % 2 != 0) run.reject("threads is 1 or even");
  run.begin(threads);

  size_t producers = threads == 1 ? 1 : threads / 2;
  state.batches = operations / producers / state.batch + 1;
  state.all = state.batches * producers;
  state.queue = suite::table<void**>(state.limit);
  std::atomic<uint64_t> checksum{0};
  bench::run_threads(threads, [&](size_t thread) {
    suite::Random random(run.seed() * 1000 + thread);
    uint64_t sum = 0;
    run.start(thread);
    if (threads == 1) {
      for (size_t i = 0; i < state.batches; ++i) sum += free_batch(state, make_batch(state, random));
    } else if (thread < producers) {
      for (size_t i = 0; i < state.batches; ++i) put(state, make_batch(state, random));
    } else {
      while (void** batch = take(state)) sum += free_batch(state, batch);
    }
    run.stop();
    checksum.fetch_add(sum, std::memory_order_relaxed);
  });
  run.report(state.all * state.batch, checksum);
}
