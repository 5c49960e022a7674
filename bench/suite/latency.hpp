// SPDX-License-Identifier: MIT
// How long single calls take: a histogram a thread, and the file of all.
//
// Buckets are those of an HdrHistogram: the values of each octave in kSteps equal steps, so that a bucket is at most
// 1/kSteps of its value wide. Time is the processor's own counter where it runs at one speed for ever, and the
// monotonic clock elsewhere. A call's time includes one reading of the clock; what that costs is measured, written down
// and not subtracted.
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <bit>

#include "../workloads/bench.hpp"

namespace suite {

// A clock that costs a few nanoseconds to read. Its ticks become nanoseconds by comparison with the monotonic clock
// from start() to stop().
class Ticks {
 public:
  static uint64_t now() {
#if defined(__x86_64__)
    if (counter_) {
      unsigned processor;
      return __builtin_ia32_rdtscp(&processor);
    }
#endif
    return bench::clock_ns(CLOCK_MONOTONIC);
  }

  static void start() {
#if defined(__x86_64__)
    unsigned a, b, c, d = 0;
    // Leaf 0x80000007, bit 8: the counter runs at the same speed in all states.
    counter_ = __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#endif
    first_ns_ = bench::clock_ns(CLOCK_MONOTONIC);
    first_ = now();
    // The mean of some readings in a row, of those rows the fastest, since an interrupt may fall into the others; and
    // the smallest step that the clock makes.
    resolution_ = overhead_ = UINT64_MAX;
    for (int row = 0; row < kRows; ++row) {
      const uint64_t begin = now();
      uint64_t before = begin;
      for (int i = 0; i < kReadings; ++i) {
        const uint64_t at = now();
        if (at != before && at - before < resolution_) resolution_ = at - before;
        before = at;
      }
      if (before - begin < overhead_) overhead_ = before - begin;
    }
  }

  static void stop() {
    uint64_t ns = bench::clock_ns(CLOCK_MONOTONIC) - first_ns_, ticks = now() - first_;
    ns_per_tick_ = ticks == 0 ? 1 : static_cast<double>(ns) / static_cast<double>(ticks);
  }

  static double to_ns(uint64_t ticks) { return static_cast<double>(ticks) * ns_per_tick_; }
  // What one reading costs, and how many ticks a time has; after stop().
  static uint64_t overhead() { return overhead_ / kReadings; }
  static uint64_t of_ns(double ns) { return static_cast<uint64_t>(ns / ns_per_tick_); }
  static double overhead_ns() { return to_ns(overhead_) / kReadings; }
  static double resolution_ns() { return to_ns(resolution_); }
  static const char* name() { return counter_ ? "tsc" : "monotonic"; }

 private:
  static constexpr int kRows = 20, kReadings = 50;
  static inline bool counter_ = false;
  static inline uint64_t first_ = 0, first_ns_ = 0, overhead_ = 0, resolution_ = 0;
  static inline double ns_per_tick_ = 1;
};

class Histogram {
 public:
  static constexpr size_t kSteps = 32, kBuckets = 60 * kSteps;

  // Whoever adds owns the histogram.
  void add(uint64_t ticks) {
    ++counts_[bucket_of(ticks)];
    if (ticks > most_) most_ = ticks;
  }

  void merge(const Histogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    if (other.most_ > most_) most_ = other.most_;
  }

  uint64_t total() const {
    uint64_t sum = 0;
    for (uint64_t count : counts_) sum += count;
    return sum;
  }

  // The value that `share` of all values do not exceed, to the width of a bucket. 0: there are no values.
  double quantile_ns(double share) const {
    uint64_t all = total(), seen = 0;
    uint64_t wanted = static_cast<uint64_t>(share * static_cast<double>(all) + 0.5);
    for (size_t i = 0; i < kBuckets && all > 0; ++i) {
      seen += counts_[i];
      if (seen >= wanted && counts_[i] > 0) return Ticks::to_ns(low_of(i));
    }
    return Ticks::to_ns(most_);
  }

  double most_ns() const { return Ticks::to_ns(most_); }

  // Lines of `low_ns count`, one a bucket that is not empty, after a comment.
  void write_to(int file, const char* name) const {
    char line[256];
    auto put = [&](int length) {
      bench::require(write(file, line, static_cast<size_t>(length)) == length, "cannot write");
    };
    put(snprintf(line, sizeof line, "# calls=%s count=%zu max_ns=%.0f clock=%s overhead_ns=%.1f resolution_ns=%.1f\n",
                 name, static_cast<size_t>(total()), most_ns(), Ticks::name(), Ticks::overhead_ns(),
                 Ticks::resolution_ns()));
    for (size_t i = 0; i < kBuckets; ++i) {
      if (counts_[i] == 0) continue;
      put(snprintf(line, sizeof line, "%.1f %zu\n", Ticks::to_ns(low_of(i)), static_cast<size_t>(counts_[i])));
    }
  }

 private:
  // Values below kSteps have buckets of their own; above, the top bits name octave and step.
  static size_t bucket_of(uint64_t value) {
    if (value < kSteps) return value;
    size_t shift = static_cast<size_t>(std::bit_width(value)) - static_cast<size_t>(std::bit_width(kSteps));
    return shift * kSteps + static_cast<size_t>(value >> shift);
  }

  static uint64_t low_of(size_t bucket) {
    if (bucket < 2 * kSteps) return bucket;
    size_t shift = bucket / kSteps - 1;
    return (bucket - shift * kSteps) << shift;
  }

  uint64_t counts_[kBuckets]{};
  uint64_t most_ = 0;
};

}  // namespace suite
