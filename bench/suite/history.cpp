// SPDX-License-Identifier: MIT
// What a pair of malloc and free costs after a history: what a process did before must not show in what it pays now.
//
// Each history is drawn from the seed, and so is the loop of pairs that is timed after it: threads that came and went,
// then phases of blocks of which some stay. Both run in a process of their own, and the same loop runs in a second
// process without a history. Results: the geometric mean of a pair's time after the histories, and, of after over
// fresh, the geometric mean, the ninth decile and the worst. Each block holds a word that is checked at its free.
#include <sys/wait.h>

#include <algorithm>
#include <cmath>

#include "suite.hpp"

namespace {

using bench::Random;

// A size with the same weight for each octave of [low, high].
size_t any_size(Random& random, double low, double high) {
  double part = static_cast<double>(random.below(1u << 30)) / (1u << 30);
  return static_cast<size_t>(low * std::pow(high / low, part));
}

// Each block's first word: whoever finds another one there shares the block with somebody.
void* take(size_t size, uint64_t word, bool zeroed = false) {
  void* block = zeroed ? suite::allocate_zeroed(size) : suite::allocate(size);
  *static_cast<volatile uint64_t*>(block) = word;
  return block;
}

void give(void* block, uint64_t word) {
  suite::require(*static_cast<volatile uint64_t*>(block) == word, "two owners of a block");
  suite::release(block);
}

enum class Order { first, last, random };

struct Phase {
  size_t low, high, blocks, percent;  // sizes, how many, and how many of a hundred are freed
  Order order;
};

Phase draw_phase(Random& random) {
  Phase phase{};
  phase.low = any_size(random, 16, 8192);
  phase.high = phase.low + any_size(random, 1, static_cast<double>(phase.low) * 15);
  size_t most = (size_t{48} << 20) / phase.high;
  phase.blocks = any_size(random, 16, static_cast<double>(most < 50'000 ? most : 50'000));
  phase.percent = random.below(3) == 0 ? 100 : random.between(50, 100);
  phase.order = static_cast<Order>(random.below(3));
  return phase;
}

void run_phase(const Phase& phase, Random& random) {
  void** blocks = bench::table<void*>(phase.blocks);
  uint64_t word = random.next();
  for (size_t i = 0; i < phase.blocks; ++i) {
    blocks[i] = take(random.between(phase.low, phase.high), word);
    for (size_t page = 4096; page < phase.low; page += 4096) static_cast<volatile char*>(blocks[i])[page] = 1;
  }
  if (phase.order == Order::last) std::reverse(blocks, blocks + phase.blocks);
  for (size_t i = phase.blocks; phase.order == Order::random && i > 1; --i) {
    std::swap(blocks[i - 1], blocks[random.below(i)]);
  }
  for (size_t i = 0; i < phase.blocks; ++i) {
    if (random.below(100) < phase.percent) give(blocks[i], word);
  }
  bench::drop_table(blocks, phase.blocks);
}

void* live_and_end(void* seed) {
  Random random(reinterpret_cast<uintptr_t>(seed));
  Phase phase = draw_phase(random);
  phase.blocks = phase.blocks / 8 + 1;
  run_phase(phase, random);
  return nullptr;
}

void run_history(uint64_t seed) {
  Random random(seed);
  size_t threads = random.below(2) == 0 ? 0 : random.between(1, 12);
  for (size_t i = 0; i < threads; i += 3) {
    pthread_t started[3];
    for (pthread_t& thread : started) {
      void* own = reinterpret_cast<void*>(static_cast<uintptr_t>(random.next() >> 1));
      bench::require(pthread_create(&thread, nullptr, live_and_end, own) == 0, "cannot start a thread");
    }
    for (pthread_t& thread : started) pthread_join(thread, nullptr);
  }
  for (size_t phases = random.between(1, 4); phases > 0; --phases) run_phase(draw_phase(random), random);
}

struct Pairs {
  double ns;          // of a pair, in the quickest of several tries
  uint64_t checksum;  // of the sizes
};

Pairs run_pairs(uint64_t seed) {
  constexpr size_t kSizes = 512, kRounds = 40, kTries = 5, kMostLive = 64;
  Random random(seed);
  size_t low = any_size(random, 16, 4096), high = low + any_size(random, 1, static_cast<double>(low) * 4);
  bool zeroed = random.below(2) == 0;
  size_t live = size_t{1} << random.below(7);
  size_t sizes[kSizes];
  Pairs result{0, 0};
  for (size_t& size : sizes) {
    size = random.between(low, high);
    result.checksum += suite::mix(size);
  }
  void* blocks[kMostLive];
  for (size_t i = 0; i < live; ++i) blocks[i] = take(low, i);
  uint64_t best = ~uint64_t{0};
  for (size_t attempt = 0; attempt < kTries; ++attempt) {
    uint64_t start = bench::clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < kSizes * kRounds; ++i) {
      size_t at = i % live;
      give(blocks[at], at);
      blocks[at] = take(sizes[i % kSizes], at, zeroed);
    }
    uint64_t took = bench::clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    best = took < best ? took : best;
  }
  result.ns = static_cast<double>(best) / (kSizes * kRounds);
  return result;
}

struct Result {
  Pairs fresh, after;
};

template <class Work>
void in_child(Work&& work) {
  pid_t child = fork();
  bench::require(child >= 0, "cannot fork");
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  bench::require(waitpid(child, &status, 0) == child && status == 0, "a history failed");
}

}  // namespace

int main(int argc, char** argv) {
  suite::Run run(argc, argv, "history", "of no paper", "pairs of malloc and free after histories drawn at random");
  size_t histories = run.scaled("histories", 100, "histories, each with a loop of its own", 3);
  size_t list = run.number("list", 0, "1: a line on stderr for each history", 0, 1);
  run.begin(1);
  Result* results = static_cast<Result*>(
      mmap(nullptr, histories * sizeof(Result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  bench::require(results != MAP_FAILED, "no memory for results");
  run.start();
  for (size_t i = 0; i < histories; ++i) {
    uint64_t seed = suite::mix(run.seed() * 1'000'003 + i);
    in_child([&] { results[i].fresh = run_pairs(seed); });
    in_child([&] {
      run_history(seed);
      results[i].after = run_pairs(seed);
    });
    if (list != 0)
      fprintf(stderr, "%zu %.1f %.1f %.2f\n", i, results[i].fresh.ns, results[i].after.ns,
              results[i].after.ns / results[i].fresh.ns);
  }
  run.stop();
  double* ratios = bench::table<double>(histories);
  double log_after = 0, log_ratio = 0;
  uint64_t checksum = 0;
  for (size_t i = 0; i < histories; ++i) {
    ratios[i] = results[i].after.ns / results[i].fresh.ns;
    log_after += std::log(results[i].after.ns);
    log_ratio += std::log(ratios[i]);
    checksum += results[i].after.checksum;
  }
  std::sort(ratios, ratios + histories);
  double count = static_cast<double>(histories);
  run.add("pair_ns", std::exp(log_after / count));
  run.add("after_over_fresh", std::exp(log_ratio / count));
  run.add("after_over_fresh_p90", ratios[histories * 9 / 10]);
  run.add("after_over_fresh_worst", ratios[histories - 1]);
  run.report(histories, checksum);
}
