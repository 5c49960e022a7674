// SPDX-License-Identifier: MIT
// Objects of 2^x to 2^(x+2) bytes, local to their threads, for one x: in a cycle a thread allocates 2^x KB of new
// objects, reads and writes them, and frees those of the cycle before. The paper has x = 4, 6 ... 20, 30 cycles and 40
// threads; its metric is the time spent in the allocator: allocator_ns, the sum over all threads. Small x make 30
// cycles a matter of microseconds: repeat= does all again.
//
// An operation is a malloc and a free. Of each object every page, and of small ones every line, is written.
//
// With more threads than processors few of them hold their most at once, and how many do depends on how often each is
// stopped in its cycles: a slow allocator has more live at once, for which peaks alone are not its own. So live_kib is
// counted; together=1 makes it the same for all.
#include "suite.hpp"

namespace {

struct Object {
  uint64_t* memory;
  size_t words;
};

struct State {
  size_t x, bytes, most, cycles;
  // Bytes that all threads have asked for and not freed, counted a set at a time: before it is written to, and once it
  // is all freed.
  std::atomic<size_t> live{0}, most_live{0};

  void add(size_t more) {
    size_t now = live.fetch_add(more, std::memory_order_relaxed) + more;
    size_t old = most_live.load(std::memory_order_relaxed);
    while (now > old && !most_live.compare_exchange_weak(old, now, std::memory_order_relaxed)) {
    }
  }
};

struct Thread {
  suite::Random random;
  Object* sets[2];
  size_t counts[2] = {0, 0}, bytes[2] = {0, 0};
  uint64_t sum = 0, allocator_ns = 0, operations = 0;
};

void allocate(Thread& thread, size_t set, State& state) {
  suite::Stopwatch watch;
  size_t low = size_t{1} << state.x, count = 0, bytes = 0;
  while (bytes < state.bytes && count < state.most) {
    size_t size = low + thread.random.below(3 * low);
    thread.sets[set][count++] = {static_cast<uint64_t*>(suite::allocate(size)), size / sizeof(uint64_t)};
    bytes += size;
  }
  thread.counts[set] = count;
  thread.allocator_ns += watch.ns();
  thread.bytes[set] = bytes;
  state.add(bytes);
}

// Writes all of them before any is read: two that overlap would be noticed.
void access(Thread& thread, size_t set, const State& state) {
  size_t step = state.x < 12 ? 64 / sizeof(uint64_t) : 4096 / sizeof(uint64_t);
  for (size_t i = 0; i < thread.counts[set]; ++i) {
    Object& object = thread.sets[set][i];
    for (size_t word = 0; word < object.words; word += step) object.memory[word] = i + word;
    object.memory[object.words - 1] = object.words;
  }
  for (size_t i = 0; i < thread.counts[set]; ++i) {
    Object& object = thread.sets[set][i];
    for (size_t word = 0; word < object.words; word += step) thread.sum += object.memory[word];
    suite::require(object.memory[object.words - 1] == object.words, "an object was damaged");
  }
}

void release(Thread& thread, size_t set, State& state) {
  suite::Stopwatch watch;
  for (size_t i = 0; i < thread.counts[set]; ++i) suite::release(thread.sets[set][i].memory);
  thread.operations += thread.counts[set];
  thread.counts[set] = 0;
  thread.allocator_ns += watch.ns();
  state.live.fetch_sub(thread.bytes[set], std::memory_order_relaxed);
  thread.bytes[set] = 0;
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "object_sizes", "scalloc 7.5, figure 10; 7.7.1, figure 12",
                 "objects of 2^x to 2^(x+2) bytes, local to their threads");
  State state{};
  size_t threads = run.threads(40);
  state.x = run.number("x", 4, "objects have 2^x to 2^(x+2) bytes; 4, 6 ... 20", 4, 24);
  state.cycles = run.number("cycles", 30, "cycles");
  // At least four of the largest objects.
  state.bytes = run.scaled("kb", size_t{1} << state.x, "KB of new objects in a cycle, of each thread; 2^x", 1) * 1024;
  size_t repeat = run.number("repeat", 1, "times that all cycles are run");
  bool together = run.number("together", 0, "1: all threads hold both sets at once, in each cycle", 0, 1) != 0;
  run.begin(threads);

  size_t low = size_t{1} << state.x;
  if (state.bytes < low * 16) state.bytes = low * 16;
  state.most = state.bytes / low + 1;
  suite::Barrier barrier(threads);
  std::atomic<uint64_t> checksum{0}, allocator_ns{0}, operations{0};
  bench::run_threads(threads, [&](size_t index) {
    Thread thread{suite::Random(run.seed() * 1000 + index),
                  {suite::table<Object>(state.most), suite::table<Object>(state.most)}};
    run.start(index);
    for (size_t cycle = 0; cycle < state.cycles * repeat; ++cycle) {
      allocate(thread, cycle % 2, state);
      access(thread, cycle % 2, state);
      if (together) barrier.wait();
      release(thread, (cycle + 1) % 2, state);
    }
    release(thread, 0, state);
    release(thread, 1, state);
    run.stop();
    checksum.fetch_add(suite::mix(thread.sum), std::memory_order_relaxed);
    allocator_ns.fetch_add(thread.allocator_ns, std::memory_order_relaxed);
    operations.fetch_add(thread.operations, std::memory_order_relaxed);
  });
  run.add("allocator_ns", static_cast<double>(allocator_ns));
  run.add("kb_a_cycle", static_cast<double>(state.bytes / 1024));
  run.live(state.most_live.load(std::memory_order_relaxed));
  run.report(operations, checksum);
}
