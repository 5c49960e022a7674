// SPDX-License-Identifier: MIT
// Threads in phases of drifting sizes: in each phase every thread fills so many bytes with blocks of one narrow range
// of sizes, and frees them again but for a few, which stay to the end. The ranges lie evenly between the smallest and
// the largest size. What is freed are holes of all sizes among survivors, and all threads ask for them at once: an
// allocator that looks for a hole one by one stands still here. So time is shown beside memory: the processor's, and
// the longest single malloc.
#include "pattern.hpp"

namespace {

constexpr size_t kMostThreads = 64;

struct Drift {
  size_t threads, phases, bytes, one_in, low, high, width, seed;
  bool shuffle;
  pattern::Figures* figures;
  pthread_barrier_t filled;
  std::atomic<size_t> live{0}, calls{0}, cpu_ns{0}, longest_ns{0};
  pattern::Blocks blocks[kMostThreads], survivors[kMostThreads];
};

void fill(Drift& drift, pattern::Blocks& blocks, size_t phase, pattern::Random& random) {
  const size_t low = drift.low + (drift.high - drift.low) * phase / drift.phases;
  const size_t top = low * drift.width / 100, high = top < drift.high ? top : drift.high;
  uint64_t longest = 0, before = bench::clock_ns(CLOCK_MONOTONIC);
  while (blocks.bytes() < drift.bytes) {
    blocks.add(random.between(low, high));
    const uint64_t now = bench::clock_ns(CLOCK_MONOTONIC);
    if (now - before > longest) longest = now - before;
    before = now;
  }
  drift.calls.fetch_add(blocks.count(), std::memory_order_relaxed);
  drift.live.fetch_add(blocks.bytes(), std::memory_order_relaxed);
  size_t seen = drift.longest_ns.load(std::memory_order_relaxed);
  while (seen < longest && !drift.longest_ns.compare_exchange_weak(seen, longest, std::memory_order_relaxed)) {
  }
}

void work(void* shared, size_t index) {
  Drift& drift = *static_cast<Drift*>(shared);
  pattern::Random random(drift.seed + index);
  pattern::Blocks& blocks = drift.blocks[index];
  uint64_t cpu = 0;
  for (size_t phase = 0; phase < drift.phases; ++phase) {
    uint64_t start = bench::clock_ns(CLOCK_THREAD_CPUTIME_ID);
    fill(drift, blocks, phase, random);
    cpu += bench::clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    // All are full when one looks, so what is live then is the same in every run.
    if (pthread_barrier_wait(&drift.filled) == PTHREAD_BARRIER_SERIAL_THREAD) drift.figures->sample(drift.live);
    pthread_barrier_wait(&drift.filled);
    start = bench::clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const size_t bytes = blocks.bytes();
    if (drift.shuffle) blocks.shuffle(random);
    blocks.thin(drift.one_in, random);
    drift.live.fetch_sub(bytes - blocks.bytes(), std::memory_order_relaxed);
    drift.survivors[index].take(blocks);
    cpu += bench::clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
  }
  drift.cpu_ns.fetch_add(cpu, std::memory_order_relaxed);
}

}  // namespace

int main(int argc, char** argv) {
  pattern::Figures figures("drift");
  bench::Arguments arguments(argc, argv);
  static Drift drift;
  drift.threads = arguments.number("threads", 4);
  drift.phases = arguments.number("phases", 20);
  drift.bytes = arguments.number("bytes", 40'000'000);  // a thread and phase
  drift.one_in = arguments.number("one_in", 20);
  drift.low = arguments.number("low", 64);
  drift.high = arguments.number("high", 1024);
  drift.width = arguments.number("width", 150);  // from the lowest to the highest size of a phase, in percent
  drift.seed = arguments.number("seed", 1);
  drift.shuffle = arguments.number("shuffle", 0) != 0;
  arguments.done();
  pattern::require(drift.threads > 0 && drift.threads <= kMostThreads && drift.phases > 0, "bad arguments");
  pattern::require(drift.low >= 16 && drift.low <= drift.high && drift.width >= 100 && drift.one_in > 0,
                   "bad arguments");

  drift.figures = &figures;
  pattern::require(pthread_barrier_init(&drift.filled, nullptr, static_cast<unsigned>(drift.threads)) == 0,
                   "no barrier");
  for (size_t i = 0; i < drift.threads; ++i) {
    drift.blocks[i].make(drift.bytes / drift.low + 1000);
    drift.survivors[i].make((drift.bytes / drift.low + 1000) * drift.phases * 2 / drift.one_in + 1000);
  }
  pattern::Threads threads;
  threads.make(drift.threads);
  figures.own_memory_done();

  for (size_t i = 0; i < drift.threads; ++i) threads.start(work, &drift);
  threads.join_all();
  figures.add("cpu_ms", static_cast<double>(drift.cpu_ns) / 1e6);
  figures.add("cpu_ns_a_block", static_cast<double>(drift.cpu_ns) / static_cast<double>(drift.calls));
  figures.add("longest_us", static_cast<double>(drift.longest_ns) / 1e3);
  figures.report(figures.now());
}
