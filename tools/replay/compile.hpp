// SPDX-License-Identifier: MIT
// Events to a plan (plan.hpp). Takes events as the reader gives them, in order; needs no file, so that tests can make
// their own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "replay/flat_map.hpp"
#include "replay/plan.hpp"
#include "trace/reader.hpp"

namespace coffer::replay {

struct Plan {
  PlanHead head{};
  std::vector<PlanThread> threads;
  std::vector<u64> samples;  // live bytes
  std::vector<PlanStep> steps;

  void write(const std::string& path) const;  // throws trace::Error; a part may be there then
};

// What is between two calls of a thread: nothing, the time or the instructions that were.
enum class Gaps { none, time, instructions };

struct CompileOptions {
  u64 operations = 0;  // how many are to be expected, for the distance of samples; 0: samples all 4096
  u64 samples = 200;
  Gaps gaps = Gaps::none;
};

class Compiler {
 public:
  explicit Compiler(const CompileOptions& options);

  // Throws trace::Error where a trace is too much for a plan.
  void add(const trace::Event& event);
  Plan finish();

 private:
  struct Thread {
    u32 number = 0;
    u32 index = 0;
    std::vector<PlanStep> steps;
    std::vector<u32> free_slots;
    u32 slots = 0;
    u64 sequence = 0;  // of its last step
    u64 first_sequence = 0, last_sequence = 0;
    u64 waited_for = 0;  // the time of the last step that waits
    u64 main_steps = 0;  // of the main thread when this one began
    u64 owed = 0;        // instructions that no step has yet
  };
  // Who filled the slot, and the step that says so.
  struct Producer {
    u32 thread, slot;
    u64 step, size;
  };

  void allocate(const trace::Event& event, Thread& thread);
  void reallocate(const trace::Event& event, Thread& thread);
  void release(const trace::Event& event, Thread& thread);
  Thread& thread_of(u32 number);
  void begin(Thread& thread, const trace::Event& event);
  void wait(const trace::Event& event, Thread& thread);
  void push(Thread& thread, Step kind, u64 size, u32 slot = 0, u32 other = 0);
  u32 private_slot(Thread& thread);
  u32 consume(const Producer& producer, Thread& thread);
  void live(u64 more, u64 less);
  void sample(Thread& thread);
  std::vector<PlanStep> with_threads(Plan& plan) const;

  CompileOptions options_;
  u64 sample_every_;
  std::vector<Thread> threads_;
  std::map<u32, u32> index_;  // of a thread by its number
  FlatMap<Producer> blocks_;
  Plan plan_;
  u64 sequence_ = 0;
  u64 live_ = 0;
  u64 shared_slots_ = 0;
};

}  // namespace coffer::replay
