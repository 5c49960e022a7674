// Barnes-Hut as in table 4 of the Hoard paper: 32,768 particles, 20 rounds, 14 threads. Each round builds an octree of
// separately allocated nodes, the eight parts of space by different threads; moves the particles by what the tree says;
// and frees the nodes, other threads than those that built them. Fragmentation is A/U as in fragmentation.cpp.
#include <math.h>

#include "pattern.hpp"

namespace {

struct Point {
  float x, y, z;
};

// A particle is a block of its own, as are the leaves, which name up to a few particles, and the inner nodes.
struct Particle {
  Point place, speed, force;
  float mass;
  Particle* next;  // in its leaf
};

struct Node {
  Point centre;
  float mass;
  Particle* particles;  // of a leaf; null: an inner node
};

struct Inner {
  Node node;
  Node* parts[8];
};

constexpr size_t kParts = 8, kMostDeep = 24;
constexpr float kSpace = 100.0f;

struct State {
  size_t threads, particles, rounds;
  float wide;  // a part of space is one point from further than its edge times this
  pattern::Figures* figures;
  Particle** all;
  Node* roots[kParts];
  std::atomic<size_t> live{0}, peak{0};
  pthread_barrier_t barrier;
};

State state;

template <class T>
T* make() {
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
void drop(T* block) {
  state.live.fetch_sub(sizeof(T), std::memory_order_relaxed);
  free(block);
}

size_t part_of(const Point& place, const Point& middle) {
  return size_t{place.x >= middle.x} + 2 * size_t{place.y >= middle.y} + 4 * size_t{place.z >= middle.z};
}

Point middle_of(const Point& middle, float quarter, size_t part) {
  return {middle.x + (part & 1 ? quarter : -quarter), middle.y + (part & 2 ? quarter : -quarter),
          middle.z + (part & 4 ? quarter : -quarter)};
}

// Puts the particle below `place`; edge is that of the part of space, around middle.
void insert(Node*& place, Particle* particle, Point middle, float edge, size_t depth) {
  if (place == nullptr) {
    place = make<Node>();
    place->particles = particle;
    particle->next = nullptr;
    return;
  }
  if (place->particles != nullptr) {
    if (depth == kMostDeep) {
      particle->next = place->particles;
      place->particles = particle;
      return;
    }
    // A leaf becomes an inner node, its particle goes one deeper.
    Inner* inner = make<Inner>();
    Particle* other = place->particles;
    drop(place);
    place = &inner->node;
    size_t part = part_of(other->place, middle);
    insert(inner->parts[part], other, middle_of(middle, edge / 4, part), edge / 2, depth + 1);
  }
  size_t part = part_of(particle->place, middle);
  insert(reinterpret_cast<Inner*>(place)->parts[part], particle, middle_of(middle, edge / 4, part), edge / 2,
         depth + 1);
}

void weigh(Node& node) {
  Point sum{};
  auto add = [&](const Point& place, float mass) {
    sum = {sum.x + place.x * mass, sum.y + place.y * mass, sum.z + place.z * mass};
    node.mass += mass;
  };
  node.mass = 0;
  if (node.particles != nullptr) {
    for (Particle* particle = node.particles; particle != nullptr; particle = particle->next) {
      add(particle->place, particle->mass);
    }
  } else {
    for (Node* part : reinterpret_cast<Inner&>(node).parts) {
      if (part == nullptr) continue;
      weigh(*part);
      add(part->centre, part->mass);
    }
  }
  node.centre = {sum.x / node.mass, sum.y / node.mass, sum.z / node.mass};
}

void pull(Particle& particle, const Node& node, float edge) {
  Point way = {node.centre.x - particle.place.x, node.centre.y - particle.place.y, node.centre.z - particle.place.z};
  float square = way.x * way.x + way.y * way.y + way.z * way.z + 0.01f;
  if (node.particles == nullptr && edge * edge * state.wide * state.wide > square) {
    for (const Node* part : reinterpret_cast<const Inner&>(node).parts) {
      if (part != nullptr) pull(particle, *part, edge / 2);
    }
    return;
  }
  float strength = node.mass / (square * sqrtf(square));
  particle.force = {particle.force.x + way.x * strength, particle.force.y + way.y * strength,
                    particle.force.z + way.z * strength};
}

void move(Particle& particle) {
  constexpr float kStep = 0.05f;
  float* place = &particle.place.x;
  float* speed = &particle.speed.x;
  const float* force = &particle.force.x;
  for (size_t i = 0; i < 3; ++i) {
    speed[i] += force[i] * kStep;
    place[i] += speed[i] * kStep;
    // Space ends, and particles bounce.
    if (place[i] < 0 || place[i] > kSpace) {
      speed[i] = -speed[i];
      place[i] = place[i] < 0 ? 0 : kSpace;
    }
  }
}

void free_tree(Node* node) {
  if (node == nullptr) return;
  if (node->particles != nullptr) return drop(node);
  Inner* inner = reinterpret_cast<Inner*>(node);
  for (Node* part : inner->parts) free_tree(part);
  drop(inner);
}

void work(void*, size_t index) {
  constexpr Point kMiddle = {kSpace / 2, kSpace / 2, kSpace / 2};
  size_t from = state.particles * index / state.threads, to = state.particles * (index + 1) / state.threads;
  pattern::Random random(700 + index);
  auto anywhere = [&] { return static_cast<float>(random.below(1 << 20)) * kSpace / (1 << 20); };
  for (size_t i = from; i < to; ++i) {
    state.all[i] = make<Particle>();
    state.all[i]->place = {anywhere(), anywhere(), anywhere()};
    state.all[i]->mass = 1.0f;
  }
  pthread_barrier_wait(&state.barrier);
  for (size_t round = 0; round < state.rounds; ++round) {
    // The threads take turns with the parts of space.
    size_t part = (index + round) % state.threads;
    if (part < kParts) {
      Point middle = middle_of(kMiddle, kSpace / 4, part);
      for (size_t i = 0; i < state.particles; ++i) {
        Particle* particle = state.all[i];
        if (part_of(particle->place, kMiddle) == part) insert(state.roots[part], particle, middle, kSpace / 2, 0);
      }
      if (state.roots[part] != nullptr) weigh(*state.roots[part]);
    }
    if (pthread_barrier_wait(&state.barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
      state.figures->sample(state.peak.load(std::memory_order_relaxed));
    }
    pthread_barrier_wait(&state.barrier);
    for (size_t i = from; i < to; ++i) {
      state.all[i]->force = {};
      for (Node* root : state.roots) {
        if (root != nullptr) pull(*state.all[i], *root, kSpace / 2);
      }
    }
    pthread_barrier_wait(&state.barrier);
    for (size_t i = from; i < to; ++i) move(*state.all[i]);
    part = (index + round + 1) % state.threads;
    if (part < kParts) {
      free_tree(state.roots[part]);
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
  pattern::require(state.threads >= kParts, "at least eight threads, one for each part of space");

  state.figures = &figures;
  state.all = bench::table<Particle*>(state.particles);
  pthread_barrier_init(&state.barrier, nullptr, static_cast<unsigned>(state.threads));
  pattern::Threads threads;
  threads.make(state.threads);
  figures.own_memory_done();

  for (size_t i = 0; i < state.threads; ++i) threads.start(work, nullptr);
  threads.join_all();
  for (size_t i = 0; i < state.particles; ++i) drop(state.all[i]);
  figures.report(figures.now());
}
