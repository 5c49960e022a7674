// SPDX-License-Identifier: MIT
// Threads that allocate and free random blocks in random order. SmartHeap's own program is not described beyond that
// in either paper; the reading here: each thread has a set of blocks; in a round it frees `batch` random ones of them
// and allocates as many of random sizes in their places, so that lifetimes differ and blocks survive many rounds.
//
// Hoard: 8 to 100 bytes, 50 million blocks in all. Its table 4 has 556,112 bytes in use at most, which are 10,298
// blocks of 54 bytes in all threads together. scalloc: 1 to 8 bytes, 10^6 rounds a thread; a round has one block of
// each size here. An operation is a malloc with its free.
#include "suite.hpp"

namespace {

struct Slot {
  unsigned char* block;
  size_t size;
};

struct State {
  size_t low, high, slots, batch, rounds;
};

// Every block carries its size in its first and last byte.
void fill(Slot& slot, size_t size) {
  slot.block = static_cast<unsigned char*>(suite::allocate(size));
  slot.size = size;
  slot.block[0] = slot.block[size - 1] = static_cast<unsigned char>(size);
}

uint64_t empty(Slot& slot) {
  if (slot.block == nullptr) return 0;
  unsigned char tag = static_cast<unsigned char>(slot.size);
  suite::require(slot.block[0] == tag && slot.block[slot.size - 1] == tag, "a block was damaged");
  suite::release(slot.block);
  slot.block = nullptr;
  return slot.size;
}

uint64_t run_thread(suite::Run& run, const State& state, size_t thread) {
  Slot* slots = suite::table<Slot>(state.slots);
  size_t* chosen = suite::table<size_t>(state.batch);
  suite::Random random(run.seed() * 1000 + thread);
  run.start(thread);
  uint64_t bytes = 0;
  for (size_t round = 0; round < state.rounds; ++round) {
    for (size_t i = 0; i < state.batch; ++i) bytes += empty(slots[chosen[i] = random.below(state.slots)]);
    for (size_t i = 0; i < state.batch; ++i) {
      size_t size = random.between(state.low, state.high);
      // Chosen twice in this round: replaced at once.
      bytes += empty(slots[chosen[i]]);
      fill(slots[chosen[i]], size);
    }
  }
  for (size_t i = 0; i < state.slots; ++i) bytes += empty(slots[i]);
  run.stop();
  return suite::mix(bytes);
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "shbench", "Hoard 5.2, figure 3b and table 4; scalloc 7.2.2, figure 7",
                 "threads allocate and free blocks of random sizes in random order, apart from each other");
  State state{};
  size_t threads = run.threads(1);
  state.low = run.number("low", 8, "bytes of the smallest block; scalloc: 1");
  state.high = run.number("high", 100, "bytes of the largest block; scalloc: 8", 1, 1 << 20);
  state.batch = run.number("batch", 8, "blocks freed, and allocated, in a round");
  state.slots = run.number("slots", 10'298, "blocks that live, of all threads together") / threads;
  size_t blocks = run.scaled("blocks", 50'000'000, "blocks of all threads together; scalloc: 8000000 for each thread");
  state.rounds = blocks / threads / state.batch + 1;
  if (state.slots == 0) run.reject("more threads than slots");
  if (state.low > state.high) run.reject("low is above high");
  run.begin(threads);

  std::atomic<uint64_t> checksum{0};
  bench::run_threads(
      threads, [&](size_t thread) { checksum.fetch_add(run_thread(run, state, thread), std::memory_order_relaxed); });
  run.live(threads * state.slots * (state.low + state.high) / 2);
  run.report(threads * state.rounds * state.batch, checksum);
}
