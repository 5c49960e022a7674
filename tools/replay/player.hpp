// SPDX-License-Identifier: MIT
// Runs a plan (plan.hpp) with as many threads as it has. Blocks are touched as asked; what was written is looked at
// again before a block is freed or after it was moved, so that an allocator that gives memory out twice is found.
#pragma once

#include <signal.h>

#include <atomic>

#include "measure.hpp"
#include "plan.hpp"

namespace coffer::replay {

enum class Touch { none, first, all };
enum Call : size_t { kAllocate, kReallocate, kFree, kCalls };

struct PlayOptions {
  Touch touch = Touch::all;
  u64 lead = 0;  // by how many operations of the trace a thread may be ahead of the slowest
};

// A slot: the block's address; bit 0: its first 8 bytes hold the slot's tag; bit 1: filled, also where malloc(0) gave
// NULL. 0: empty.
using Slot = std::atomic<uintptr_t>;

struct SampleResult {
  u64 operation, ns, kib, live;
};

struct alignas(64) Worker {
  // The place in the trace of what this thread does now, for the others to see; ~0: they need not wait for it.
  std::atomic<u64> progress{~u64{0}};
  std::atomic<u64> live{0};  // allocated less freed by this thread, modulo 2^64
  alignas(64) const PlanThread* thread = nullptr;
  char* stack = nullptr;
  pthread_t handle{};
  u64 ticks[kCalls] = {};
  u64 done[kOperations] = {};
  const PlanStep* step = nullptr;
  Histogram latency[kCalls];
};

class Player {
 public:
  Player(const PlanHead& head, const PlayOptions& options);

  void play();

  const PlanHead& head() const { return head_; }
  const Worker& worker(size_t i) const { return workers_[i]; }
  const SampleResult& sample(size_t i) const { return samples_[i]; }
  // KiB, of the process but for our own.
  size_t start_kib() const { return start_kib_ - own_bytes / 1024; }
  size_t added_kib(size_t now) const { return now > start_kib_ ? now - start_kib_ : 0; }
  size_t final_kib() const { return added_kib(final_kib_); }
  size_t peak_kib() const { return peak_kib_; }
  u64 wall_ns() const { return wall_ns_; }
  // Of all threads, those of the allocator too, with the page faults.
  u64 processor_ns() const { return processor_ns_; }
  u64 faults() const { return faults_; }
  bool is_exact() const { return gauge_.is_exact(); }

 private:
  static constexpr size_t kStackBytes = size_t{128} << 10;

  void run(Worker& worker);
  void allocate(Worker& worker, const PlanStep& step);
  void reallocate(Worker& worker, const PlanStep& step, size_t old_size);
  void release(Worker& worker, const PlanStep& step);
  void start(Worker& worker);
  void join(Worker& worker);
  void await_others(u64 sequence, u64& limit);
  void await_time(u64 ns) const;
  void take_sample(u32 number, u64 sequence);
  void finish();

  Slot& slice_of(const Worker& worker, u32 number);
  uintptr_t take(Slot& slot, bool is_shared);
  void fill(const Worker& worker, u32 number, void* block, size_t size, size_t old_size);
  void write_to(char* block, size_t size, size_t old_size) const;
  void check_zero(const Worker& worker, const char* block, size_t size) const;
  void check_tag(const Worker& worker, const Slot& slot, uintptr_t value, const char* when, const void* block) const;
  [[noreturn]] void fail(const Worker& worker, const char* what) const;

  const PlanHead& head_;
  const PlayOptions options_;
  const PlanStep* steps_;
  Worker* workers_;
  Slot* private_;
  Slot* shared_;
  SampleResult* samples_;
  char** stacks_;  // those that no thread has
  size_t free_stacks_ = 0;
  MemoryGauge gauge_;
  size_t start_kib_ = 0, start_resident_ = 0, final_kib_ = 0, peak_kib_ = 0;
  std::atomic<size_t> most_tables_{0};
  u64 start_ns_ = 0, wall_ns_ = 0, processor_ns_ = 0, faults_ = 0;
};

// Says where it was when the allocator crashed.
void report_crashes();

}  // namespace coffer::replay
