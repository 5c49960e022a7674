// SPDX-License-Identifier: MIT
// The model that every operation is checked against: which blocks the program holds, how large and how aligned each is,
// what it contains. It calls the allocator by the prefix API and ends the process at the first wrong answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "property/operation.hpp"
#include "support/live_ranges.hpp"

namespace coffer::test {

class Model {
 public:
  Model() : blocks_(kSlotsOfModel) {}

  // Operations that do not fit the state (a free of an empty slot, an allocation for a full one) do nothing, so that
  // any part of a sequence is a sequence.
  void apply(const Operation& operation);

  // Frees every block and verifies that nothing is left.
  void finish();

 private:
  static constexpr std::size_t kSlotsOfModel = 16 * 1024;

  struct Block {
    unsigned char* at = nullptr;
    std::size_t requested = 0;
    std::size_t filled = 0;  // bytes that carry the pattern: requested, or all usable ones
    std::size_t usable = 0;
    std::size_t alignment = 0;  // 0: from malloc and the like
    std::uint64_t seed = 0;
    bool large = false;  // in a run of slots or chunks of its own
  };

  void allocate(Block& block, const Operation& operation);
  void reallocate(Block& block, std::size_t size);
  void release(Block& block, Kind kind);
  // Checks a fresh block and enters it.
  void enter(Block& block, void* at, std::size_t size, std::size_t alignment);
  void leave(const Block& block);
  static bool is_large(const void* at);
  // Bytes that statistics count for the block: of a large one what lies before it in its first slot, too.
  static std::size_t counted(const Block& block);
  void verify(const Block& block, std::size_t kept, const char* when) const;
  void check_stats() const;

  std::vector<Block> blocks_;
  LiveRanges ranges_;
  std::size_t usable_ = 0;        // of all blocks
  std::size_t usable_large_ = 0;  // of the large ones
  std::uint64_t next_seed_ = 1;
};

}  // namespace coffer::test
