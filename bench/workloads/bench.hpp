// SPDX-License-Identifier: MIT
// What every workload shares: arguments, random numbers, time, memory figures, threads, and the line of results.
//
// A workload is a plain program: which allocator it runs under is decided by LD_PRELOAD. It uses no C++ runtime, so
// that nothing but the workload itself allocates, and takes its own tables from mmap, so that they are the same for
// all.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace bench {

[[noreturn]] inline void fail(const char* what) {
  fprintf(stderr, "workload: %s\n", what);
  _exit(1);
}

inline void require(bool condition, const char* what) {
  if (!condition) fail(what);
}

// Arguments are key=value, each with a default. Call done() after the last one is read: a misspelt key is an error.
class Arguments {
 public:
  Arguments(int count, char** values) : count_(count), values_(values) {}

  const char* text(const char* key, const char* fallback) {
    size_t length = strlen(key);
    for (int i = 1; i < count_; ++i) {
      if (values_[i] != nullptr && strncmp(values_[i], key, length) == 0 && values_[i][length] == '=') {
        const char* value = values_[i] + length + 1;
        values_[i] = nullptr;
        return value;
      }
    }
    return fallback;
  }

  size_t number(const char* key, size_t fallback) {
    const char* value = text(key, nullptr);
    if (value == nullptr) return fallback;
    char* end = nullptr;
    unsigned long long result = strtoull(value, &end, 10);
    require(end != value && *end == 0, key);
    return result;
  }

  // The first argument that nobody has read; null: there is none.
  const char* unread() const {
    for (int i = 1; i < count_; ++i) {
      if (values_[i] != nullptr) return values_[i];
    }
    return nullptr;
  }

  void done() const { require(unread() == nullptr, "unknown argument"); }

 private:
  int count_;
  char** values_;
};

// splitmix64: the same numbers on every machine, a few instructions each.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Uniform in [0, n); n below 2^32.
  size_t below(size_t n) { return ((next() >> 32) * n) >> 32; }
  size_t between(size_t low, size_t high) { return low + below(high - low + 1); }

 private:
  uint64_t state_;
};

// Bytes of all tables, which are part of every figure of memory.
inline std::atomic<size_t> table_bytes{0};

// Zeroed memory for the workload's own tables.
template <class T>
T* table(size_t count) {
  void* memory =
      mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  require(memory != MAP_FAILED, "no memory for a table");
  table_bytes.fetch_add(count * sizeof(T), std::memory_order_relaxed);
  return static_cast<T*>(memory);
}

// Gives a table back, so that it is not seen in what the process holds in the end.
template <class T>
void drop_table(T* memory, size_t count) {
  munmap(memory, count * sizeof(T));
  table_bytes.fetch_sub(count * sizeof(T), std::memory_order_relaxed);
}

// A power of two of sizes, drawn once so that the timed loop pays one load: uniform in [low, high], or with the same
// number of sizes in each octave (an integer approximation of log-uniform, the same on every machine).
class Sizes {
 public:
  static constexpr size_t kCount = 8192;

  Sizes(size_t low, size_t high, bool logarithmic, uint64_t seed) : sizes_(table<uint32_t>(kCount)) {
    require(low > 0 && low <= high, "bad range of sizes");
    Random random(seed);
    size_t octaves = 0;
    while ((low << (octaves + 1)) <= high) ++octaves;
    for (size_t i = 0; i < kCount; ++i) {
      size_t from = low, to = high;
      if (logarithmic && octaves > 0) {
        from = low << random.below(octaves);
        to = from * 2 > high ? high : from * 2;
      }
      sizes_[i] = static_cast<uint32_t>(random.between(from, to));
    }
  }

  size_t operator[](size_t i) const { return sizes_[i % kCount]; }

 private:
  uint32_t* sizes_;
};

// Writes to each page of the block and to its end, as a program that uses its memory does.
inline void touch(void* block, size_t size) {
  volatile char* bytes = static_cast<char*>(block);
  for (size_t offset = 0; offset < size; offset += 4096) bytes[offset] = 1;
  bytes[size - 1] = 1;
}

inline void* allocate(size_t size) {
  void* block = malloc(size);
  require(block != nullptr, "malloc failed");
  *static_cast<volatile uint64_t*>(block) = size;
  return block;
}

inline uint64_t clock_ns(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

// Reads a file of /proc whole without allocating. Returns the length of the text.
inline size_t read_text(const char* path, char* text, size_t size) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  size_t length = 0;
  for (ssize_t got; length + 1 < size && (got = read(file, text + length, size - 1 - length)) > 0;) {
    length += static_cast<size_t>(got);
  }
  close(file);
  text[length] = 0;
  return length;
}

// The figure after `key` in such a text, in KiB; 0 if it is not there.
inline size_t figure(const char* text, const char* key) {
  const char* place = strstr(text, key);
  return place == nullptr ? 0 : strtoull(place + strlen(key), nullptr, 10);
}

struct Memory {
  size_t resident, peak_resident, page_tables;  // KiB

  static Memory now() {
    char text[4096];
    read_text("/proc/self/status", text, sizeof text);
    return {figure(text, "\nVmRSS:"), figure(text, "\nVmHWM:"), figure(text, "\nVmPTE:")};
  }
};

// Resident memory plus page tables in KiB, the pages counted one by one: the counters of /proc/self/status may be off
// by some hundred KiB.
inline size_t memory_kib() {
  char text[4096];
  read_text("/proc/self/smaps_rollup", text, sizeof text);
  size_t resident = figure(text, "\nRss:");
  require(resident > 0, "/proc/self/smaps_rollup cannot be read");
  return resident + Memory::now().page_tables;
}

// Page faults of the process so far.
inline uint64_t fault_count() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_minflt) + static_cast<uint64_t>(usage.ru_majflt);
}

// Times the part of a run between start() and stop() of all its threads, and remembers the most page tables seen.
// The kernel keeps the peak of resident memory by itself, but not that of page tables.
class Measurement {
 public:
  explicit Measurement(size_t threads) { pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(threads)); }

  // Every thread, after its warm-up.
  void start() {
    pthread_barrier_wait(&barrier_);
    lower(faults_start_, fault_count());
    lower(wall_start_, clock_ns(CLOCK_MONOTONIC));
    lower(cpu_start_, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
  }

  // Every thread, after its last timed operation.
  void stop() {
    raise(wall_stop_, clock_ns(CLOCK_MONOTONIC));
    raise(cpu_stop_, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    raise(faults_stop_, fault_count());
  }

  // Call where the program holds most, outside the timed part.
  void sample() {
    Memory now = Memory::now();
    raise(page_tables_, now.page_tables);
    raise(peak_resident_, now.peak_resident);
  }

  uint64_t wall_ns() const { return wall_stop_ - wall_start_; }
  uint64_t cpu_ns() const { return cpu_stop_ - cpu_start_; }
  uint64_t faults() const { return faults_stop_ - faults_start_; }
  // The most that sample() has seen.
  size_t page_tables() const { return page_tables_; }
  size_t peak_resident() const { return peak_resident_; }

  // Prints the line of results, all blocks freed: wall time over the operations that each thread did, processor time
  // over those of all threads.
  void report(size_t operations, size_t by_each) {
    Memory end = Memory::now();
    raise(page_tables_, end.page_tables);
    double wall = static_cast<double>(wall_ns()) / static_cast<double>(by_each);
    double cpu = static_cast<double>(cpu_ns()) / static_cast<double>(operations);
    print(wall, cpu, operations, end.peak_resident + page_tables_, end.resident + end.page_tables);
  }

  static void print(double wall, double cpu, size_t operations, size_t peak, size_t end) {
    char line[512];
    int length = snprintf(line, sizeof line,
                          "ns_per_op=%.3f cpu_ns_per_op=%.3f operations=%zu peak_kib=%zu end_kib=%zu library=%s\n",
                          wall, cpu, operations, peak, end, library());
    require(write(STDOUT_FILENO, line, static_cast<size_t>(length)) == length, "cannot write");
  }

  // The file that malloc really comes from.
  static const char* library() {
    Dl_info info;
    void* symbol = dlsym(RTLD_DEFAULT, "malloc");
    if (symbol == nullptr || dladdr(symbol, &info) == 0) return "unknown";
    return info.dli_fname;
  }

 private:
  using Figure = std::atomic<uint64_t>;

  static void lower(Figure& to, uint64_t value) {
    uint64_t old = to.load(std::memory_order_relaxed);
    while (value < old && !to.compare_exchange_weak(old, value, std::memory_order_relaxed)) {
    }
  }

  static void raise(Figure& to, uint64_t value) {
    uint64_t old = to.load(std::memory_order_relaxed);
    while (value > old && !to.compare_exchange_weak(old, value, std::memory_order_relaxed)) {
    }
  }

  pthread_barrier_t barrier_;
  Figure wall_start_{UINT64_MAX}, cpu_start_{UINT64_MAX}, faults_start_{UINT64_MAX}, wall_stop_{0}, cpu_stop_{0},
      faults_stop_{0}, page_tables_{0}, peak_resident_{0};
};

// Keeps the calling thread, and those that it starts, on one processor: the index-th of those allowed. The scheduler
// may take longer than a whole run to notice that two threads share a processor while another is idle.
inline void pin(size_t index) {
  cpu_set_t allowed, one;
  require(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "no affinity");
  size_t wanted = index % static_cast<size_t>(CPU_COUNT(&allowed));
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed) || wanted-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

// Runs worker(0) to worker(threads - 1) at the same time, each on its processor. A single one runs on the main thread:
// allocators and the C library know processes that never started a thread.
template <class Worker>
void run_threads(size_t threads, Worker&& worker) {
  struct Start {
    Worker* worker;
    size_t index;
    pthread_t thread;
  };
  if (threads == 1) return worker(0);
  Start* starts = table<Start>(threads);
  for (size_t i = 0; i < threads; ++i) {
    starts[i] = {&worker, i, {}};
    auto body = [](void* argument) -> void* {
      Start* start = static_cast<Start*>(argument);
      pin(start->index);
      (*start->worker)(start->index);
      return nullptr;
    };
    require(pthread_create(&starts[i].thread, nullptr, body, &starts[i]) == 0, "cannot start a thread");
  }
  for (size_t i = 0; i < threads; ++i) pthread_join(starts[i].thread, nullptr);
}

}  // namespace bench
