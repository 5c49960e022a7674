// SPDX-License-Identifier: MIT
// The simulated machine: cores with a clock each, the threads that run on them, and the order in which they go on. It
// is always the core with the least time that does the next thing which another could notice; so waiting, failed
// compare_exchanges and spinning come out of the code itself. Equal seeds give equal runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fiber.hpp"
#include "ground.hpp"
#include "keys.hpp"
#include "memory.hpp"

namespace simulation {

// What a thread is in the middle of.
enum Call : u32 { kProgram, kMalloc, kFree, kCalls };
inline constexpr const char* kCallNames[kCalls] = {"program", "malloc", "free"};

struct CallCounts {
  static constexpr u32 kBuckets = 8 * 64;  // eight to each doubling
  u64 calls = 0, cycles = 0, most = 0;
  u64 accesses = 0, misses = 0, transfers = 0, invalidations = 0, failed = 0, waited = 0, system = 0;
  std::vector<u64> durations = std::vector<u64>(kBuckets);

  void add(u64 cycles);
  u64 quantile(double share) const;
};

// A place in the source whose accesses took lines from others.
struct Where {
  const char* file = nullptr;
  const char* function = nullptr;  // null: a plain access, `line` is an address in the program
  u64 line = 0;
  auto operator<=>(const Where&) const = default;
};
struct PlaceCounts {
  u64 misses = 0, transfers = 0, invalidations = 0, failed = 0, waited = 0;
};

// Numbers that look random; the same from the same seed.
class Random {
 public:
  explicit Random(u64 seed) : state_(seed * 2 + 1) {}
  u64 next() {
    u64 value = (state_ += 0x9e3779b97f4a7c15u);
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
  }
  u64 below(u64 limit) { return next() % limit; }
  u64 between(u64 low, u64 high) { return low + below(high - low + 1); }

 private:
  u64 state_;
};

struct Thread {
  Fiber fiber;
  u32 core = 0;
  u64 time = 0;
  u64 owed = 0;  // interruptions by others
  Call call = kProgram;
  bool timed = true;        // what it does counts
  Line* spun_on = nullptr;  // the last line that it had to fetch
  Where spun_at;
  u64 looked_at = 0;  // the line that it read since its last pause ...
  u32 looks = 0;      // ... so often; more than one: other lines, too
  std::function<void()> body;
  std::map<u32, void*> specific;  // pthread_setspecific
};

class Machine {
 public:
  Machine(const Shape& shape, const Costs& costs, u64 seed);

  // Runs `first` on core 0 until all threads have ended.
  void run(std::function<void()> first);

  // --- Called by the code that is simulated. ---
  void start_thread(u32 core, std::function<void()> body);
  // A thread waits until `count` are there, then all go on.
  struct Meeting {
    u32 count = 0;
    std::vector<Thread*> waiting;
  };
  void meet(Meeting& meeting);
  void access(uptr address, u64 bytes, Access access, const Where& where);
  void failed(uptr address, const Where& where);
  void spend(u64 cycles) { current_->time += cycles; }
  // A loop that waits for what was accessed last. One that does nothing but to look at a line, again and again, goes on
  // when another core takes that line.
  void spin(u64 cycles);
  // A call to the kernel; `alone`: no other such call in the address space meanwhile. `interrupts`: the other cores.
  void system_call(const char* name, u64 cycles, bool alone, bool interrupts);
  // Memory that has no page any more, or none yet.
  void forget(uptr from, u64 bytes);
  // Begins or ends an allocator's call.
  void enter(Call call);
  void leave(Call call, u64 began);
  // Counts from here on.
  void begin_to_count();
  // Whether what this thread does is of the timed part; so are threads that it starts. Without a word it is.
  void set_timed(bool timed) { current_->timed = timed; }

  bool running() const { return current_ != nullptr; }
  Thread& current() { return *current_; }
  u64 now() const { return current_->time; }
  const Shape& shape() const { return shape_; }
  const Costs& costs() const { return costs_; }
  Memory& memory() { return memory_; }

  struct Counts {
    CallCounts calls[kCalls];
    std::map<Where, PlaceCounts> places;
    std::map<std::string, u64> system;
    u64 switches = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Turn {
    u64 time, tie;
    Thread* thread;
    bool operator>(const Turn& other) const { return time != other.time ? time > other.time : tie > other.tie; }
  };
  static void run_body();
  void add_turn(Thread* thread);
  void give_way();
  void go_on();
  u64 wait_for_turn(u64 line, Access access);
  void touch(u64 line, Access access, const Where& where);
  void pay_interruptions();
  void note_waiting(u64 cycles);
  template <class Add>
  void count_line(Line* line, const Add& add);
  void wake_watchers(u64 line);

  Shape shape_;
  Costs costs_;
  Memory memory_;
  Random random_;
  std::unique_ptr<Fiber> outside_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> idle_;  // ended: their stacks serve again
  std::priority_queue<Turn, std::vector<Turn>, std::greater<Turn>> turns_;
  std::unordered_map<u64, std::vector<Thread*>> watchers_;  // by the line that they look at
  Thread* current_ = nullptr;
  u64 limit_ = 0;  // time of the least of the others
  u64 kernel_free_at_ = 0;
  u32 alive_ = 0;
  std::unordered_set<u64> pages_;
  Counts counts_, untimed_;
};

// The one that the recorded code reports to; null outside of a run.
extern Machine* g_machine;

}  // namespace simulation
