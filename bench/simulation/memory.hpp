// SPDX-License-Identifier: MIT
// The memory of the simulated machine: each core's own cache, kept coherent by MESI with a directory of lines. It knows
// nothing of threads; the machine (machine.hpp) asks it what an access takes.
//
// A line that is handed from core to core is at one place at a time: each hand-over begins when the one before it has
// ended (Line::busy_until). That is what makes a hot line a bottleneck.
#pragma once

#include <array>
#include <cstddef>
#include <unordered_map>
#include <vector>

#include "costs.hpp"

namespace simulation {

enum class State : u32 { none = 0, shared = 1, exclusive = 2, modified = 3 };
enum class Access : u32 { read, write, change };

struct LineCounts {
  u64 transfers = 0;      // it came out of another core's cache
  u64 invalidations = 0;  // copies that a write took from other cores
  u64 failed = 0;         // compare_exchanges
  u64 waited = 0;         // cycles that accesses waited for each other, or that threads span on it
};

struct Line {
  std::array<u64, kMostCores / 64> sharers{};  // cores that have it; with an owner, only that one
  int owner = -1;                              // has it alone: exclusive or modified
  u32 home = 0;                                // socket that had it last
  u64 busy_until = 0;
  LineCounts counts;    // of the timed part
  LineCounts in_calls;  // ... those of malloc and free
};

// What one access did.
struct Outcome {
  u64 cycles = 0;  // beyond a hit
  u32 transfers = 0, invalidations = 0;
  bool hit = false;
  bool fresh = false;  // the line was never seen before
  Line* line = nullptr;
};

class Memory {
 public:
  Memory(const Shape& shape, const Costs& costs);

  // Whether the core can do it without asking anybody.
  bool hits(u32 core, u64 line, Access access) const;
  // When the line can be handed to the next core.
  u64 ready_at(u64 line) const;
  // Not before ready_at, but for hits.
  Outcome access(u32 core, u64 line, Access access, u64 now);
  // Takes the lines of a range out of all caches: their memory is new, or gone.
  void forget(uptr from, u64 bytes);
  // Counts from here on.
  void forget_counts();

  State state(u32 core, u64 line) const;
  Line& line(u64 number) { return lines_[number]; }
  const std::unordered_map<u64, Line>& lines() const { return lines_; }

 private:
  // A way: | line (62) | state (2) |; 0: empty. A set is a cache line of the machine that simulates.
  struct alignas(64) Set {
    std::array<u64, kWays> ways{};
  };
  static u64 pack(u64 line, State state) { return line << 2 | static_cast<u64>(state); }
  Set& set_of(u32 core, u64 line) const {
    return sets_[std::size_t{core} * shape_.cache_sets + line % shape_.cache_sets];
  }
  u64* find(u32 core, u64 line) const;
  void insert(u32 core, u64 line, State state);
  void remove(u32 core, u64 line);
  bool shares(const Line& line, u32 core) const { return (line.sharers[core / 64] >> (core % 64)) & 1; }
  bool near(u32 core, const Line& line) const;
  u32 socket(u32 core) const { return core / shape_.cores_a_socket; }
  u64 read(u32 core, u64 number, Line& line, Outcome& outcome);
  u64 write(u32 core, u64 number, Line& line, Outcome& outcome);
  u64 take_copies(u32 core, u64 number, Line& line, Outcome& outcome);
  bool prefetched(u32 core, u64 number) const;

  Shape shape_;
  Costs costs_;
  mutable std::vector<Set> sets_;  // looking for a line moves it to the front of its set
  std::unordered_map<u64, Line> lines_;
};

}  // namespace simulation
