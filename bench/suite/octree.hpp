// SPDX-License-Identifier: MIT
// Barnes and Hut's method: an octree of particles, built anew in each round, and the forces that follow from it. A
// particle, a leaf and an inner node are blocks of their own. Heap says how blocks are made and dropped:
//   template <class T> static T* make();  zeroed
//   template <class T> static void drop(T*);
#pragma once

#include <math.h>

#include <cstddef>

namespace octree {

struct Point {
  float x, y, z;
};

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

inline constexpr size_t kParts = 8, kMostDeep = 24;
inline constexpr float kSpace = 100.0f;
inline constexpr Point kMiddle = {kSpace / 2, kSpace / 2, kSpace / 2};

inline size_t part_of(const Point& place, const Point& middle) {
  return size_t{place.x >= middle.x} + 2 * size_t{place.y >= middle.y} + 4 * size_t{place.z >= middle.z};
}

inline Point middle_of(const Point& middle, float quarter, size_t part) {
  return {middle.x + (part & 1 ? quarter : -quarter), middle.y + (part & 2 ? quarter : -quarter),
          middle.z + (part & 4 ? quarter : -quarter)};
}

// Puts the particle below `place`; edge is that of the part of space, around middle.
template <class Heap>
void insert(Node*& place, Particle* particle, Point middle, float edge, size_t depth) {
  if (place == nullptr) {
    place = Heap::template make<Node>();
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
    Inner* inner = Heap::template make<Inner>();
    Particle* other = place->particles;
    Heap::drop(place);
    place = &inner->node;
    size_t part = part_of(other->place, middle);
    insert<Heap>(inner->parts[part], other, middle_of(middle, edge / 4, part), edge / 2, depth + 1);
  }
  size_t part = part_of(particle->place, middle);
  insert<Heap>(reinterpret_cast<Inner*>(place)->parts[part], particle, middle_of(middle, edge / 4, part), edge / 2,
               depth + 1);
}

inline void weigh(Node& node) {
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

// The tree of one of the eight parts of space.
template <class Heap>
Node* build(size_t part, Particle* const* all, size_t count) {
  Node* root = nullptr;
  Point middle = middle_of(kMiddle, kSpace / 4, part);
  for (size_t i = 0; i < count; ++i) {
    if (part_of(all[i]->place, kMiddle) == part) insert<Heap>(root, all[i], middle, kSpace / 2, 0);
  }
  if (root != nullptr) weigh(*root);
  return root;
}

// A part of space is one point from further than its edge times `wide`.
inline void pull(Particle& particle, const Node& node, float edge, float wide) {
  Point way = {node.centre.x - particle.place.x, node.centre.y - particle.place.y, node.centre.z - particle.place.z};
  float square = way.x * way.x + way.y * way.y + way.z * way.z + 0.01f;
  if (node.particles == nullptr && edge * edge * wide * wide > square) {
    for (const Node* part : reinterpret_cast<const Inner&>(node).parts) {
      if (part != nullptr) pull(particle, *part, edge / 2, wide);
    }
    return;
  }
  float strength = node.mass / (square * sqrtf(square));
  particle.force = {particle.force.x + way.x * strength, particle.force.y + way.y * strength,
                    particle.force.z + way.z * strength};
}

inline void pull_all(Particle& particle, Node* const* roots, float wide) {
  particle.force = {};
  for (size_t part = 0; part < kParts; ++part) {
    if (roots[part] != nullptr) pull(particle, *roots[part], kSpace / 2, wide);
  }
}

inline void move(Particle& particle) {
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

template <class Heap>
void free_tree(Node* node) {
  if (node == nullptr) return;
  if (node->particles != nullptr) return Heap::drop(node);
  Inner* inner = reinterpret_cast<Inner*>(node);
  for (Node* part : inner->parts) free_tree<Heap>(part);
  Heap::drop(inner);
}

}  // namespace octree
