// SPDX-License-Identifier: MIT
// Barnes-Hut as in table 4 of the Hoard paper: 32,768 particles, 20 rounds, 14 threads. Each round builds an octree of
// separately allocated nodes, the eight parts of space by different threads; moves the particles by what the tree says;
// and frees the nodes, other threads than those that built them. Fragmentation is A/U as in fragmentation.cpp.
#include "../suite/octree.hpp"

#include "pattern.hpp"

namespace {

struct State {
  size_t threads, particles, rounds;
  float wide;  // a part of space is one point from further than its edge times this
  pattern::Figures* figures;
  octree::Particle** all;
  octree::Node* roots[octree::kParts];
  std::atomic<size_t> live{0}, peak{0};
  pthread_barrier_t barrier;
};

State state;

// Counts what is live.
struct Heap {
  template <class T>
  static T* make() {
    T* result = static_cast<T*>(malloc(sizeof(T)));
    pattern::require(result != nullptr, "malloc failed");
    memset(static_cast<void*>(result), 0, sizeof(T));
    size_t live = state.live.fetch_add(sizeof(T), std::memory_order_relaxed) + sizeof(T);
    size_t peak = state.peak.load(std::memory_order_relaxed);
    while (live > peak && !state.peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
    }
    return result;
  }

  template <class T>
  static void drop(T* block) {
    state.live.fetch_sub(sizeof(T), std::memory_order_relaxed);
    free(block);
  }
};

void work(void*, size_t index) {
  size_t from = state.particles * index / state.threads, to = state.particles * (index + 1) / state.threads;
  pattern::Random random(700 + index);
  auto anywhere = [&] { return static_cast<float>(random.below(1 << 20)) * octree::kSpace / (1 << 20); };
  for (size_t i = from; i < to; ++i) {
    state.all[i] = Heap::make<octree::Particle>();
    state.all[i]->place = {anywhere(), anywhere(), anywhere()};
    state.all[i]->mass = 1.0f;
  }
  pthread_barrier_wait(&state.barrier);
  for (size_t round = 0; round < state.rounds; ++round) {
    // The threads take turns with the parts of space.
    size_t part = (index + round) % state.threads;
    if (part < octree::kParts) state.roots[part] = octree::build<Heap>(part, state.all, state.particles);
    if (pthread_barrier_wait(&state.barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
      state.figures->sample(state.peak.load(std::memory_order_relaxed));
    }
    pthread_barrier_wait(&state.barrier);
    for (size_t i = from; i < to; ++i) octree::pull_all(*state.all[i], state.roots, state.wide);
    pthread_barrier_wait(&state.barrier);
    for (size_t i = from; i < to; ++i) octree::move(*state.all[i]);
    part = (index + round + 1) % state.threads;
    if (part < octree::kParts) {
      octree::free_tree<Heap>(state.roots[part]);
      state.roots[part] = nullptr;
    }
    pthread_barrier_wait(&state.barrier);
  }
}

}  // namespace

int main(int argc, char** argv) {
  pattern::Figures figures("barnes_hut");
  bench::Arguments arguments(argc, argv);
  state.threads = arguments.number("threads", 14);
  state.particles = arguments.number("particles", 32'768);
  state.rounds = arguments.number("rounds", 20);
  state.wide = static_cast<float>(arguments.number("wide_percent", 50)) / 100;
  arguments.done();
  pattern::require(state.threads >= octree::kParts, "at least eight threads, one for each part of space");

  state.figures = &figures;
  state.all = bench::table<octree::Particle*>(state.particles);
  pthread_barrier_init(&state.barrier, nullptr, static_cast<unsigned>(state.threads));
  pattern::Threads threads;
  threads.make(state.threads);
  figures.own_memory_done();

  for (size_t i = 0; i < state.threads; ++i) threads.start(work, nullptr);
  threads.join_all();
  for (size_t i = 0; i < state.particles; ++i) Heap::drop(state.all[i]);
  figures.report(figures.now());
}
