// SPDX-License-Identifier: MIT
// What every memory pattern shares: memory figures, threads that cost the figures nothing, blocks that know their
// size, and the line of JSON.
//
// A pattern is a plain program that runs under whichever allocator is preloaded, as in ../workloads. Its figures are
// resident memory plus page tables, in KiB. Tables and thread stacks of the program itself are made resident at the
// start and left out of every figure; what the process held before that, its first allocation still to come, is shown
// as start_kib, so that the cost of the library itself can be seen.
#pragma once

#include <errno.h>
#include <limits.h>
#include <semaphore.h>
#include <stdarg.h>

#include "../workloads/bench.hpp"
#include "coffer/coffer.h"

namespace pattern {

using bench::fail;
using bench::memory_kib;
using bench::Random;
using bench::require;

inline constexpr size_t kMiB = size_t{1} << 20;

// The library's own bound, where it computes one. A template, so that a header without the field compiles too.
template <class Stats>
size_t bound_of(const Stats& stats) {
  if constexpr (requires { stats.bound; }) {
    return stats.bound;
  } else {
    return 0;
  }
}

// Figures of one run. Construct it first in main; then make tables and stacks; then call own_memory_done().
class Figures {
 public:
  explicit Figures(const char* name) : name_(name), start_(memory_kib()) {
    // Some allocators take gigabytes here. If the machine has not so many, this process shall go and no other.
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    // Where it is not allowed, nothing else can be done.
    if (write(file, "1000", 4) != 4) errno = 0;
    close(file);
  }

  // Everything that the program itself needs is resident now, and nothing is allocated yet.
  void own_memory_done() { own_ = memory_kib() - start_; }

  // Memory now, without what is the program's own.
  size_t now() const {
    size_t memory = memory_kib();
    return memory > own_ ? memory - own_ : 0;
  }

  // At the points where the program holds most. `live`: bytes that the program has asked for and not freed.
  void sample(size_t live) {
    size_t memory = now(), pages = bench::Memory::now().page_tables;
    if (memory > peak_) peak_ = memory;
    if (pages > page_tables_) page_tables_ = pages;
    live_at(live);
    read_coffer();
  }

  void live_at(size_t live) {
    if (live > live_) live_ = live;
  }

  // Adds a figure of the pattern's own.
  void add(const char* key, double value) {
    require(extras_ < kExtras, "too many figures");
    extra_[extras_++] = {key, value};
  }

  size_t start_kib() const { return start_; }
  size_t peak_kib() const { return peak_; }

  // Prints the figures. end: memory when the pattern is over.
  void report(size_t end) {
    // The kernel's own peak, for what happens between the samples. Its counters are exact to about 256 KiB only, so it
    // counts when it is further above than that.
    bench::Memory memory = bench::Memory::now();
    if (memory.page_tables > page_tables_) page_tables_ = memory.page_tables;
    size_t high = memory.peak_resident + page_tables_ > own_ ? memory.peak_resident + page_tables_ - own_ : 0;
    size_t peak = high > peak_ + kCounterError ? high - kCounterError : peak_;
    put("{\"pattern\": \"%s\", \"library\": \"%s\", \"start_kib\": %zu, \"own_kib\": %zu, \"live_kib\": %zu, "
        "\"peak_kib\": %zu, \"end_kib\": %zu, \"page_tables_kib\": %zu",
        name_, bench::Measurement::library(), start_, own_, live_ / 1024, peak, end, page_tables_);
    double live = static_cast<double>(live_) / 1024, above = peak > start_ ? static_cast<double>(peak - start_) : 0;
    put(", \"ratio\": %.4f", live > 0 ? above / live : 0.0);
    for (size_t i = 0; i < extras_; ++i) put(", \"%s\": %.9g", extra_[i].key, extra_[i].value);
    if (has_coffer_) put(", \"heaps\": %zu, \"bound_kib\": %zu, \"beyond_bound\": %zu", heaps_, bound_ / 1024, beyond_);
    put("}\n");
    require(write(STDOUT_FILENO, line_, length_) == static_cast<ssize_t>(length_), "cannot write");
  }

 private:
  static constexpr size_t kExtras = 24, kCounterError = 512;
  struct Extra {
    const char* key;
    double value;
  };

  __attribute__((format(printf, 2, 3))) void put(const char* format, ...) {
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line_ + length_, sizeof line_ - length_, format, values);
    va_end(values);
    require(length >= 0 && length_ + static_cast<size_t>(length) < sizeof line_, "the line is too long");
    length_ += static_cast<size_t>(length);
  }

  // The most heaps and the highest bound seen, when the library is Coffer.
  void read_coffer() {
    static auto function = reinterpret_cast<decltype(&::coffer_stats)>(dlsym(RTLD_DEFAULT, "coffer_stats"));
    struct coffer_stats stats{};
    if (function == nullptr || function(&stats, sizeof stats) != 0) return;
    has_coffer_ = true;
    if (stats.heaps > heaps_) heaps_ = stats.heaps;
    if (bound_of(stats) > bound_) bound_ = bound_of(stats);
    // What the bound is about is the library's memory; the process has more, its stacks among it.
    size_t covered = stats.held + stats.free_resident + stats.metadata;
    if (bound_of(stats) != 0 && covered > bound_of(stats) && covered - bound_of(stats) > beyond_) {
      beyond_ = covered - bound_of(stats);
    }
  }

  const char* name_;
  size_t start_, own_ = 0, peak_ = 0, page_tables_ = 0, live_ = 0, heaps_ = 0, bound_ = 0, beyond_ = 0, extras_ = 0,
                 length_ = 0;
  bool has_coffer_ = false;
  Extra extra_[kExtras];
  char line_[4096 + 1024];
};

// Sizes of blocks. `steps`: multiples of low, up to high, each as likely: every allocator with size classes has all of
// them to 128 bytes, so that what is seen above live is not rounding. `octaves`: any size, as many in each octave.
struct Mix {
  size_t low, high;
  bool octaves;

  size_t draw(Random& random) const {
    if (!octaves) return low * random.between(1, high / low);
    size_t count = 0;
    while ((low << (count + 1)) <= high) ++count;
    size_t from = low << random.below(count + 1), to = from * 2 > high ? high : from * 2 - 1;
    return random.between(from, to);
  }

  size_t average() const { return octaves ? low * 2 : low * (high / low + 1) / 2; }
};

// Every page is written, and the size is kept in the first word, where release() finds it. size >= 16.
inline void* allocate(size_t size) {
  void* block = malloc(size);
  require(block != nullptr, "malloc failed");
  bench::touch(block, size);
  *static_cast<size_t*>(block) = size;
  return block;
}

// Returns the block's size.
inline size_t release(void* block) {
  size_t size = *static_cast<size_t*>(block);
  require(size >= 16 && size < (size_t{1} << 32), "a block was damaged");
  free(block);
  return size;
}

// A set of blocks, in a table that is resident from the start.
class Blocks {
 public:
  void make(size_t capacity) {
    blocks_ = bench::table<void*>(capacity);
    capacity_ = capacity;
  }

  void add(size_t size) {
    require(count_ < capacity_, "the table of blocks is full");
    blocks_[count_++] = allocate(size);
    bytes_ += size;
  }

  // Adds blocks until there are `bytes` more, the last one cut to fit.
  void fill(size_t bytes, const Mix& mix, Random& random) {
    for (size_t goal = bytes_ + bytes; bytes_ + 16 <= goal;) {
      size_t size = mix.draw(random), room = goal - bytes_;
      add(size <= room ? size : room);
    }
  }

  void release(size_t index) {
    bytes_ -= pattern::release(blocks_[index]);
    blocks_[index] = blocks_[--count_];
  }

  void release_all() {
    for (size_t i = 0; i < count_; ++i) pattern::release(blocks_[i]);
    count_ = bytes_ = 0;
  }

  // Frees all but about one in `one_in`, in the order of the table: each block for itself is spared by chance.
  void thin(size_t one_in, Random& random) {
    size_t kept = 0;
    for (size_t i = 0; i < count_; ++i) {
      if (random.below(one_in) == 0) {
        blocks_[kept++] = blocks_[i];
      } else {
        bytes_ -= pattern::release(blocks_[i]);
      }
    }
    count_ = kept;
  }

  void shuffle(Random& random) {
    for (size_t i = count_; i > 1; --i) {
      size_t other = random.below(i);
      void* block = blocks_[i - 1];
      blocks_[i - 1] = blocks_[other];
      blocks_[other] = block;
    }
  }

  // Moves all blocks of the other set into this one.
  void take(Blocks& other) {
    require(count_ + other.count_ <= capacity_, "the table of blocks is full");
    for (size_t i = 0; i < other.count_; ++i) blocks_[count_++] = other.blocks_[i];
    bytes_ += other.bytes_;
    other.count_ = other.bytes_ = 0;
  }

  size_t count() const { return count_; }
  size_t bytes() const { return bytes_; }
  void*& operator[](size_t index) { return blocks_[index]; }

 private:
  void** blocks_ = nullptr;
  size_t count_ = 0, capacity_ = 0, bytes_ = 0;
};

// Threads on stacks that are resident before the first allocation, so that only the allocator's memory moves.
class Threads {
 public:
  static constexpr size_t kStack = 256 * 1024;

  void make(size_t capacity) {
    stacks_ = bench::table<char>(capacity * kStack);
    starts_ = bench::table<Start>(capacity);
    capacity_ = capacity;
  }

  void start(void (*body)(void*, size_t), void* shared) {
    require(count_ < capacity_, "too many threads");
    Start& start = starts_[count_];
    start.body = body;
    start.shared = shared;
    start.index = count_;
    pthread_attr_t attributes;
    require(pthread_attr_init(&attributes) == 0, "no attributes");
    require(pthread_attr_setstack(&attributes, stacks_ + count_ * kStack, kStack) == 0, "no stack");
    auto entry = [](void* argument) -> void* {
      Start* self = static_cast<Start*>(argument);
      self->body(self->shared, self->index);
      return nullptr;
    };
    require(pthread_create(&start.thread, &attributes, entry, &start) == 0, "cannot start a thread");
    pthread_attr_destroy(&attributes);
    ++count_;
  }

  void join_all() {
    for (size_t i = 0; i < count_; ++i) pthread_join(starts_[i].thread, nullptr);
    count_ = 0;
  }

  pthread_t thread(size_t index) const { return starts_[index].thread; }

 private:
  struct Start {
    void (*body)(void*, size_t);
    void* shared;
    size_t index;
    pthread_t thread;
  };
  char* stacks_ = nullptr;
  Start* starts_ = nullptr;
  size_t count_ = 0, capacity_ = 0;
};

inline void wait(sem_t& semaphore) {
  while (sem_wait(&semaphore) != 0) require(errno == EINTR, "sem_wait failed");
}

// A thread that has allocated before, as threads have that live for a while: some allocators treat the frees of one
// that has not apart.
inline void get_used() { free(allocate(64)); }

inline void sleep_until(uint64_t time_ns) {
  timespec time{static_cast<time_t>(time_ns / 1000000000u), static_cast<long>(time_ns % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

inline void sleep_ms(size_t ms) { sleep_until(bench::clock_ns(CLOCK_MONOTONIC) + ms * 1000000u); }

[[noreturn]] inline void sleep_for_ever() {
  for (;;) pause();
}

}  // namespace pattern
