// SPDX-License-Identifier: MIT
// What each call site allocates and what of it is freed, in each part of a trace's time, and the sizes and lifetimes of
// these blocks. From it follows what lived at the end of every part, so that a viewer can look at any stretch of time
// without the trace.
//
//   time      |part 0   |part 1   |part 2   | ...    parts of equal length
//   stack 17  |+ 4096   |         |- 4096   |        parts in which nothing happened are left out
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "analyse/json.hpp"
#include "analyse/tally.hpp"
#include "replay/flat_map.hpp"
#include "trace/reader.hpp"

namespace coffer::analyse {

class Flows {
 public:
  // duration: of the whole, in ns. peak_event: how many events come before the moment whose live blocks are told.
  Flows(u64 duration, u32 parts, u64 peak_event);

  void add(const trace::Event& event);

  void write(Json& out) const;

 private:
  struct Live {
    u64 time, size;
    u32 thread, stack;
  };
  // A realloc ends its block and begins one. At once: freed before its thread allocated anything else.
  struct Part {
    u32 number;
    Tally allocated, freed, freed_at_once;
  };
  struct Stack {
    Tally live, at_peak;
    std::vector<Part> parts;
  };

  void begin(const trace::Event& event, const Live& block);
  void end(const Live& block, const trace::Event& event, bool is_freed);
  Part& part_of(Stack& stack);
  void keep_peak();

  u64 width_;  // ns
  u32 parts_, part_ = 0;
  u64 peak_event_, events_ = 0;
  replay::FlatMap<Live> map_;
  std::map<u32, Stack> stacks_;
  std::map<u32, u64> last_block_;  // that each thread allocated
  // By part, and by size_step of what is allocated; by log2 of nanoseconds of what is freed.
  std::map<std::pair<u32, u64>, Tally> sizes_, lifetimes_;
};

}  // namespace coffer::analyse
