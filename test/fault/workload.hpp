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
  // may_fail: a call may give NULL (faults are on).
  explicit Workload(bool may_fail) : may_fail_(may_fail) {}

  // Everything, from no block to no block.
  void run();

  std::uint64_t failures() const { return failures_; }

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
  void end_of_phase(const char* phase);

  // Enters the block if there is one; counts the failure if not.
  HeldBlock take(void* at, std::size_t size, std::size_t alignment = kQuantum);
  void add(const HeldBlock& block) {
    if (block) blocks_.push_back(block);
  }
  void grow(HeldBlock& block, std::size_t size);

  bool may_fail_;
  std::uint64_t failures_ = 0;
  std::uint64_t next_seed_ = 1;
  std::vector<HeldBlock> blocks_;
};

}  // namespace coffer::test
