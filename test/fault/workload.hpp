// SPDX-License-Identifier: MIT
// One fixed run through the prefix API that reaches every call to the operating system: small, multi-slot, large and
// huge blocks, alignments, calloc, realloc in place and moving, threads that start and end, trims.
//
// It expects what a program may expect of any call: a good block, or NULL with ENOMEM; and in either case that all
// other blocks are as they were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/held_block.hpp"

namespace coffer::test {

class Workload {
 public:
  // may_fail: a call may give NULL (faults are on). live: coffer_stats::live at the end is at most this.
  //
  // It is 0 where nothing fails. A thread that gets no heap of its own allocates from the one that such threads share,
  // whose free blocks count as live.
  explicit Workload(bool may_fail, std::size_t live = 0) : may_fail_(may_fail), most_live_after_(live) {}

  // Everything, from no block to no block.
  void run();
  // The same without what costs most time.
  void run_short();

  std::uint64_t failures() const { return failures_; }
  // coffer_stats::live when everything was freed.
  std::size_t live_after() const { return most_live_after_; }

 private:
  void small_blocks();
  void multi_slot_blocks();
  void large_blocks();
  void aligned_blocks();
  void zeroed_blocks();
  void growing_blocks();
  void threads();
  void work_of_thread(std::vector<HeldBlock>& mine, std::vector<HeldBlock>& to_free, std::uint64_t seed);
  void free_every(std::size_t nth);
  void finish();
  void end_of_phase(const char* phase);

  // Enters the block if there is one; counts the failure if not.
  HeldBlock take(void* at, std::size_t size, std::size_t alignment = kQuantum);
  void add(const HeldBlock& block) {
    if (block) blocks_.push_back(block);
  }
  void grow(HeldBlock& block, std::size_t size);

  bool may_fail_;
  std::size_t most_live_after_;
  std::uint64_t failures_ = 0;
  std::uint64_t next_seed_ = 1;
  std::vector<HeldBlock> blocks_;
};

}  // namespace coffer::test
