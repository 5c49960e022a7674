// SPDX-License-Identifier: MIT
// What every program of the suite shares: arguments with their papers' values, calls of the allocator whose latency can
// be recorded, figures, and the lines of results. README.md in this folder has the format.
//
// As in ../workloads, a program runs under whichever allocator is preloaded, uses no C++ runtime, and takes its own
// tables from the kernel, so that they are the same for all.
#pragma once

#include <new>

#include "arguments.hpp"
#include "latency.hpp"

namespace suite {

using bench::Random;
using bench::require;
using bench::table;

enum Kind : size_t { kMalloc, kFree, kRequest, kKinds };
inline constexpr const char* kKindNames[kKinds] = {"malloc", "free", "request"};

struct Recorder {
  Histogram calls[kKinds];
};

// Where this thread's calls are recorded; null: they are not, and a call costs one test more.
constinit inline thread_local Recorder* recorder = nullptr;

// Runs the call, and records its time if that is wanted.
template <class Call>
inline auto timed(Kind kind, Call&& call) {
  uint64_t start = Ticks::now();
  auto result = call();
  recorder->calls[kind].add(Ticks::now() - start);
  return result;
}

inline void* allocate(size_t size) {
  void* block = recorder == nullptr ? malloc(size) : timed(kMalloc, [&] { return malloc(size); });
  require(block != nullptr, "malloc failed");
  return block;
}

inline void* allocate_zeroed(size_t size) {
  void* block = recorder == nullptr ? calloc(1, size) : timed(kMalloc, [&] { return calloc(1, size); });
  require(block != nullptr, "calloc failed");
  return block;
}

inline void* reallocate(void* old, size_t size) {
  void* block = recorder == nullptr ? realloc(old, size) : timed(kMalloc, [&] { return realloc(old, size); });
  require(block != nullptr, "realloc failed");
  return block;
}

inline void release(void* block) {
  if (recorder == nullptr) {
    free(block);
  } else {
    timed(kFree, [&] { return free(block), 0; });
  }
}

// A zeroed object, or array, of a plain type.
template <class T>
T* make(size_t count = 1) {
  void* block = allocate(count * sizeof(T));
  memset(block, 0, count * sizeof(T));
  return static_cast<T*>(block);
}

// Mixes a value so that sums of mixed values depend on each of them, but not on their order: threads can add theirs.
inline uint64_t mix(uint64_t value) { return Random(value).next(); }

// FNV-1a: depends on the order of bytes.
inline uint64_t hash_bytes(const void* data, size_t size, uint64_t hash = 0xcbf29ce484222325u) {
  const unsigned char* bytes = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size; ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

// A moment: wall time, and the processor time of all threads until then.
struct Moment {
  uint64_t wall_ns, cpu_ns;

  static Moment now() { return {bench::clock_ns(CLOCK_MONOTONIC), bench::clock_ns(CLOCK_PROCESS_CPUTIME_ID)}; }

  // Adds the time from one moment to another, to a sum that begins with {}.
  void add(const Moment& from, const Moment& to) {
    wall_ns += to.wall_ns - from.wall_ns;
    cpu_ns += to.cpu_ns - from.cpu_ns;
  }
};

// One run: construct it first in main, read the keys, then begin().
class Run : public Arguments {
 public:
  Run(int count, char** values, const char* name, const char* paper, const char* what)
      : Arguments(count, values, name, paper, what), name_(name), start_kib_(bench::memory_kib()), extra_(kExtra) {
    latency_ = text("latency", "", "file for the latencies of single calls");
  }

  // The number of threads that the timed part has.
  size_t threads(size_t fallback, size_t least = 1) { return number("threads", fallback, "threads", least, 1024); }

  // All keys are read. Ends the program if one of them was wrong, or help was asked for.
  void begin(size_t threads) {
    done();
    measurement_ = new (table<bench::Measurement>(1)) bench::Measurement(threads);
    if (latency_[0] == 0) return;
    file_ = open(latency_, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    require(file_ >= 0, "the file for latencies cannot be made");
    record_calls(threads);
  }

  // Every thread of the timed part, before its first operation and after its last one.
  void start(size_t thread = 0) {
    record(thread);
    measurement_->start();
  }
  void stop() {
    measurement_->stop();
    recorder = nullptr;
    // What comes later, such as a check, does not count.
    measurement_->sample();
  }

  // A thread that comes later takes the place of one that has ended: its calls are recorded as that one's were.
  void record(size_t thread) {
    if (recorders_ != nullptr) recorder = &recorders_[thread];
  }

  bool records() const { return recorders_ != nullptr; }

  // Where the program holds most, if that is not at the end of the timed part: page tables are seen only then.
  void sample() { measurement_->sample(); }

  // Figures of the program's own.
  void add(const char* key, double value) { extra_.put("%s=%.6g\n", key, value); }
  void phase(const char* name, uint64_t ns) { extra_.put("phase.%s_ns=%zu\n", name, static_cast<size_t>(ns)); }
  void phase(const char* name, const Moment& from, const Moment& to) {
    phase(name, to.wall_ns - from.wall_ns);
    extra_.put("phase.%s_cpu_ns=%zu\n", name, static_cast<size_t>(to.cpu_ns - from.cpu_ns));
  }
  // The most bytes that the program had asked for and not freed, where it knows.
  void live(size_t bytes) { extra_.put("live_kib=%zu\n", bytes / 1024); }

  // Latencies of a kind that the program takes itself.
  void latencies(Kind kind, const Histogram& of) { own_[kind] = &of; }

  // Prints the results. Everything is freed, but what belongs to the program itself.
  void report(size_t operations, uint64_t checksum) {
    size_t end_kib = bench::memory_kib(), own_kib = bench::table_bytes.load(std::memory_order_relaxed) / 1024;
    size_t peak_kib = measurement_->peak_resident() + measurement_->page_tables();
    Text out(kExtra * 2);
    out.put("program=%s\nlibrary=%s\n", name_, bench::Measurement::library());
    out.put("wall_ns=%zu\ncpu_ns=%zu\noperations=%zu\n", static_cast<size_t>(measurement_->wall_ns()),
            static_cast<size_t>(measurement_->cpu_ns()), operations);
    out.put("rss_start_kib=%zu\nrss_peak_kib=%zu\nrss_end_kib=%zu\nown_kib=%zu\n", start_kib_,
            peak_kib > end_kib ? peak_kib : end_kib, end_kib, own_kib);
    out.put("faults=%zu\nchecksum=%016zx\n", static_cast<size_t>(measurement_->faults()),
            static_cast<size_t>(checksum));
    out.write_to(STDOUT_FILENO);
    extra_.write_to(STDOUT_FILENO);
    report_latencies();
    echo().write_to(STDOUT_FILENO);
  }

 private:
  static constexpr size_t kExtra = 16384;

  void record_calls(size_t threads) {
    recorder_count_ = threads;
    recorders_ = table<Recorder>(threads);
    Ticks::start();
  }

  void report_latencies() {
    if (recorders_ != nullptr) {
      Ticks::stop();
      for (size_t i = 1; i < recorder_count_; ++i) {
        for (size_t kind = 0; kind < kKinds; ++kind) recorders_[0].calls[kind].merge(recorders_[i].calls[kind]);
      }
      for (size_t kind = 0; kind < kKinds; ++kind) {
        if (own_[kind] == nullptr) own_[kind] = &recorders_[0].calls[kind];
      }
    }
    Text out(kExtra);
    for (size_t kind = 0; kind < kKinds; ++kind) {
      if (own_[kind] == nullptr || own_[kind]->total() == 0) continue;
      const Histogram& all = *own_[kind];
      const char* name = kKindNames[kind];
      out.put("latency.%s.count=%zu\nlatency.%s.p50_ns=%.0f\nlatency.%s.p99_ns=%.0f\n", name,
              static_cast<size_t>(all.total()), name, all.quantile_ns(0.5), name, all.quantile_ns(0.99));
      out.put("latency.%s.p999_ns=%.0f\nlatency.%s.p9999_ns=%.0f\nlatency.%s.max_ns=%.0f\n", name,
              all.quantile_ns(0.999), name, all.quantile_ns(0.9999), name, all.most_ns());
      if (file_ >= 0) all.write_to(file_, name);
    }
    if (!out.empty()) {
      out.put("latency.clock=%s\nlatency.overhead_ns=%.1f\nlatency.resolution_ns=%.1f\n", Ticks::name(),
              Ticks::overhead_ns(), Ticks::resolution_ns());
    }
    out.write_to(STDOUT_FILENO);
  }

  const char* name_;
  const char* latency_;
  size_t start_kib_, recorder_count_ = 0;
  Text extra_;
  int file_ = -1;
  bench::Measurement* measurement_ = nullptr;
  Recorder* recorders_ = nullptr;
  const Histogram* own_[kKinds] = {};
};

// Time of a part of a run, from construction on.
class Stopwatch {
 public:
  uint64_t ns() const { return bench::clock_ns(CLOCK_MONOTONIC) - start_; }

 private:
  uint64_t start_ = bench::clock_ns(CLOCK_MONOTONIC);
};

// A barrier whose last thread runs something before any goes on.
class Barrier {
 public:
  explicit Barrier(size_t threads) { pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(threads)); }

  void wait() { pthread_barrier_wait(&barrier_); }

  template <class Last>
  void wait(Last&& last) {
    if (pthread_barrier_wait(&barrier_) == PTHREAD_BARRIER_SERIAL_THREAD) last();
    pthread_barrier_wait(&barrier_);
  }

 private:
  pthread_barrier_t barrier_;
};

}  // namespace suite
