// Paper 3's mcache: threads, each with a ring of blocks that it goes round; the first word of a block is the address of
// the next one, and nothing else of it is used. An operation is a step. Figure 2: blocks=256 order=ascending; figure 4:
// blocks=2 size=100 and many threads.
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

Node* make_ring(Node** nodes, size_t blocks, size_t size, bool ascending) {
  for (size_t i = 0; i < blocks; ++i) nodes[i] = static_cast<Node*>(bench::allocate(size));
  if (ascending) sort(nodes, blocks);
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
  size_t size = arguments.number("size", 64), blocks = arguments.number("blocks", 256);
  size_t threads = arguments.number("threads", 1), steps = arguments.number("operations", 20'000'000) / threads;
  bool ascending = strcmp(arguments.text("order", "ascending"), "ascending") == 0;
  bool list = arguments.number("list", 0) != 0;
  arguments.done();
  bench::require(size >= sizeof(Node) && blocks > 0 && blocks <= 65536, "bad ring");

  Node** nodes = bench::table<Node*>(threads * blocks);
  Node** rings = bench::table<Node*>(threads);
  bench::Measurement measurement(threads);
  // Threads that have ended would give their blocks to later ones.
  pthread_barrier_t all_have_blocks;
  pthread_barrier_init(&all_have_blocks, nullptr, static_cast<unsigned>(threads));
  bench::run_threads(threads, [&](size_t thread) {
    Node* ring = rings[thread] = make_ring(nodes + thread * blocks, blocks, size, ascending);
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
