// SPDX-License-Identifier: MIT
// Fragmentation A/U as in table 4 of the Hoard paper: A is the most memory that was taken from the system, U the most
// bytes that the program had in use. Three of the table's programs, rebuilt from the paper's descriptions, with its 14
// threads and its sizes; barnes_hut.cpp is the fourth.
//
//   workload=threadtest: each thread allocates 100,000/14 objects of 8 bytes and frees them, again and again.
//   workload=shbench: each thread replaces random ones of its blocks by others of random sizes (8 to 100 bytes).
//   workload=larson: the same with 10,000 blocks (10 to 100 bytes) a thread, handed on to a new thread time and again.
#include "pattern.hpp"

namespace {

struct Block {
  void* memory;
  size_t size;
};

struct State {
  size_t threads, objects, rounds, operations, low, high, generation;
  bool free_all;  // in every round
  pattern::Figures* figures;
  Block* blocks;
  std::atomic<size_t> live{0}, peak{0};
  pthread_barrier_t barrier;
};

State state;

void allocate(Block& block, size_t size) {
  block = {malloc(size), size};
  pattern::require(block.memory != nullptr, "malloc failed");
  memset(block.memory, 1, size);
  size_t live = state.live.fetch_add(size, std::memory_order_relaxed) + size;
  size_t peak = state.peak.load(std::memory_order_relaxed);
  while (live > peak && !state.peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

void release(Block& block) {
  if (block.memory == nullptr) return;
  free(block.memory);
  state.live.fetch_sub(block.size, std::memory_order_relaxed);
  block.memory = nullptr;
}

// Takes the figures while all threads hold what they hold.
void sample_together() {
  if (pthread_barrier_wait(&state.barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
    state.figures->sample(state.peak.load(std::memory_order_relaxed));
  }
  pthread_barrier_wait(&state.barrier);
}

void work(void*, size_t index) {
  pattern::Random random(600 + index + state.generation * state.threads);
  Block* blocks = state.blocks + index * state.objects;
  for (size_t round = 0; round < state.rounds; ++round) {
    for (size_t i = 0; i < state.objects; ++i) {
      if (blocks[i].memory == nullptr) allocate(blocks[i], random.between(state.low, state.high));
    }
    for (size_t i = 0; i < state.operations; ++i) {
      Block& block = blocks[random.below(state.objects)];
      release(block);
      allocate(block, random.between(state.low, state.high));
    }
    if (round == 0 || round + 1 == state.rounds) sample_together();
    for (size_t i = 0; state.free_all && i < state.objects; ++i) release(blocks[i]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  pattern::Figures figures("fragmentation");
  bench::Arguments arguments(argc, argv);
  const char* workload = arguments.text("workload", "threadtest");
  state.threads = arguments.number("threads", 14);
  size_t generations = 1;
  if (strcmp(workload, "threadtest") == 0) {
    state.objects = 100'000 / state.threads;
    state.low = state.high = 8;
    state.rounds = 20;
    state.free_all = true;
  } else if (strcmp(workload, "shbench") == 0) {
    // 556,112 bytes at most in use, as in the table.
    state.objects = 556'112 / 54 / state.threads;
    state.low = 8, state.high = 100;
    state.rounds = 10, state.operations = 5'000;
  } else {
    pattern::require(strcmp(workload, "larson") == 0, "unknown workload");
    state.objects = 10'000;
    state.low = 10, state.high = 100;
    state.rounds = 1, state.operations = 10'000;
    generations = 10;
  }
  arguments.done();

  state.figures = &figures;
  state.blocks = bench::table<Block>(state.threads * state.objects);
  pthread_barrier_init(&state.barrier, nullptr, static_cast<unsigned>(state.threads));
  pattern::Threads threads;
  threads.make(state.threads);
  figures.own_memory_done();

  for (; state.generation < generations; ++state.generation) {
    for (size_t i = 0; i < state.threads; ++i) threads.start(work, nullptr);
    threads.join_all();
  }
  for (size_t i = 0; i < state.threads * state.objects; ++i) release(state.blocks[i]);
  figures.report(figures.now());
}
