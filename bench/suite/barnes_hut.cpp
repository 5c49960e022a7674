// SPDX-License-Identifier: MIT
// Barnes-Hut: 32,768 particles that attract each other, 20 rounds. Each round builds an octree of separately allocated
// nodes, the eight parts of space by different threads; moves the particles by what the tree says; and frees the nodes,
// where there are several threads by another than the one that built them. The paper counts 1,172,624 objects of 39
// bytes. ../patterns/barnes_hut.cpp measures the memory of the same program on 14 threads.
//
// An operation is the force on a particle. The result is checked: the tree's weight is that of all particles, and
// particles stay in space; the checksum is of their places, and the same with any number of threads.
#include "octree.hpp"

#include "suite.hpp"

namespace {

struct Heap {
  template <class T>
  static T* make() {
    return suite::make<T>();
  }
  template <class T>
  static void drop(T* block) {
    suite::release(block);
  }
};

struct State {
  size_t threads, particles, rounds;
  float wide;
  octree::Particle** all;
  octree::Node* roots[octree::kParts];
};

void make_particles(const State& state, size_t from, size_t to, uint64_t seed) {
  for (size_t i = from; i < to; ++i) {
    suite::Random random(suite::mix(seed) + i);
    auto anywhere = [&] { return static_cast<float>(random.below(1 << 20)) * octree::kSpace / (1 << 20); };
    state.all[i] = suite::make<octree::Particle>();
    state.all[i]->place.x = anywhere();
    state.all[i]->place.y = anywhere();
    state.all[i]->place.z = anywhere();
    state.all[i]->mass = 1.0f;
  }
}

void check_weight(const State& state) {
  float mass = 0;
  for (const octree::Node* root : state.roots) mass += root == nullptr ? 0 : root->mass;
  suite::require(mass == static_cast<float>(state.particles), "a particle is not in the tree");
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "barnes_hut", "Hoard 5.2, figure 3d, tables 2 to 6", "particles that attract each other");
  State state{};
  state.threads = run.threads(1);
  state.particles = run.number("particles", 32'768, "particles", 1, 1 << 24);
  state.rounds = run.scaled("rounds", 20, "rounds");
  state.wide = static_cast<float>(run.number("wide_percent", 50,
                                             "a part of space counts as one point from further than "
                                             "its edge times this",
                                             1, 1000)) /
               100;
  run.begin(state.threads);

  state.all = suite::table<octree::Particle*>(state.particles);
  suite::Barrier barrier(state.threads);
  uint64_t tree_ns = 0;
  bench::run_threads(state.threads, [&](size_t thread) {
    size_t from = state.particles * thread / state.threads, to = state.particles * (thread + 1) / state.threads;
    run.start(thread);
    make_particles(state, from, to, run.seed());
    for (size_t round = 0; round < state.rounds; ++round) {
      barrier.wait();
      suite::Stopwatch building;
      // The threads take turns with the parts of space.
      for (size_t part = (thread + round) % state.threads; part < octree::kParts; part += state.threads) {
        state.roots[part] = octree::build<Heap>(part, state.all, state.particles);
      }
      barrier.wait([&] {
        check_weight(state);
        tree_ns += building.ns();
      });
      for (size_t i = from; i < to; ++i) octree::pull_all(*state.all[i], state.roots, state.wide);
      barrier.wait();
      for (size_t i = from; i < to; ++i) octree::move(*state.all[i]);
      suite::Stopwatch freeing;
      for (size_t part = (thread + round + 1) % state.threads; part < octree::kParts; part += state.threads) {
        octree::free_tree<Heap>(state.roots[part]);
        state.roots[part] = nullptr;
      }
      if (thread == 0) tree_ns += freeing.ns();
    }
    run.stop();
  });
  uint64_t checksum = 0;
  for (size_t i = 0; i < state.particles; ++i) {
    octree::Point place = state.all[i]->place;
    suite::require(place.x >= 0 && place.y >= 0 && place.z >= 0, "a particle has left space");
    checksum = suite::hash_bytes(&place, sizeof place, checksum);
    suite::release(state.all[i]);
  }
  run.phase("trees", tree_ns);
  run.report(state.particles * state.rounds, checksum);
}
