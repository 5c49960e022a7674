// SPDX-License-Identifier: MIT
// Paper 3's mcache: threads, each with a ring of blocks that it goes round; the first word of a block is the address of
// the next one, and nothing else of it is used. An operation is a step. Figure 2: blocks=256 order=ascending; figure 4:
// blocks=2 size=100 and many threads. order=random shows what a prefetcher hides that guesses regular distances.
// placed=1 asks no allocator: blocks lie an odd number of lines apart, so that no placement is more even. What such a
// ring costs beyond one of small blocks is the pages that it lies on.
#include "walk.hpp"

namespace {

struct Node {
  Node* next;
};

void sort(Node** nodes, size_t count) {  // by address; a few hundred
  for (size_t i = 1; i < count; ++i) {
    Node* node = nodes[i];
    size_t at = i;
    for (; at > 0 && nodes[at - 1] > node; --at) nodes[at] = nodes[at - 1];
    nodes[at] = node;
  }
}

constexpr size_t kLine = 64;

struct Shape {
  size_t blocks, size;
  bool ascending, placed;

  size_t placed_bytes() const { return ((size + kLine - 1) / kLine | 1) * kLine; }
};

Node* make_ring(Node** nodes, const Shape& shape, uint64_t seed) {
  const size_t blocks = shape.blocks;
  char* memory = shape.placed ? bench::table<char>(blocks * shape.placed_bytes()) : nullptr;
  for (size_t i = 0; i < blocks; ++i) {
    void* block = shape.placed ? memory + i * shape.placed_bytes() : bench::allocate(shape.size);
    nodes[i] = static_cast<Node*>(block);
  }
  sort(nodes, blocks);
  bench::Random random(seed);
  for (size_t i = blocks - 1; !shape.ascending && i > 0; --i) {
    const size_t other = random.below(i + 1);
    Node* node = nodes[i];
    nodes[i] = nodes[other];
    nodes[other] = node;
  }
  for (size_t i = 0; i < blocks; ++i) nodes[i]->next = nodes[(i + 1) % blocks];
  return nodes[0];
}

Node* go(Node* node, size_t steps) {
  for (size_t i = 0; i < steps; ++i) node = node->next;
  return node;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  Shape shape{};
  shape.size = arguments.number("size", 64);
  const size_t blocks = shape.blocks = arguments.number("blocks", 256);
  size_t threads = arguments.number("threads", 1), steps = arguments.number("operations", 20'000'000) / threads;
  const char* order = arguments.text("order", "ascending");
  shape.ascending = strcmp(order, "ascending") == 0;
  shape.placed = arguments.number("placed", 0) != 0;
  bool list = arguments.number("list", 0) != 0;
  arguments.done();
  bench::require(shape.ascending || strcmp(order, "random") == 0, "order is ascending or random");
  bench::require(shape.size >= sizeof(Node) && blocks > 0 && blocks <= 65536, "bad ring");

  Node** nodes = bench::table<Node*>(threads * blocks);
  Node** rings = bench::table<Node*>(threads);
  bench::Measurement measurement(threads);
  // Threads that have ended would give their blocks to later ones.
  pthread_barrier_t all_have_blocks;
  pthread_barrier_init(&all_have_blocks, nullptr, static_cast<unsigned>(threads));
  bench::run_threads(threads, [&](size_t thread) {
    Node* ring = rings[thread] = make_ring(nodes + thread * blocks, shape, thread + 1);
    pthread_barrier_wait(&all_have_blocks);
    if (list) return;
    ring = go(ring, steps / 16 + blocks);
    measurement.start();
    ring = go(ring, steps);
    measurement.stop();
    walk::use(reinterpret_cast<uintptr_t>(ring));
  });
  if (!list) {
    measurement.report(steps * threads, steps);
    return 0;
  }
  walk::List out;
  for (size_t thread = 0; thread < threads; ++thread) {
    Node* node = rings[thread];
    for (size_t i = 0; i < blocks; ++i, node = node->next) out.see(thread, node);
  }
  out.flush();
}
