// SPDX-License-Identifier: MIT
// Random operation sequences. What comes next depends on the seed and on which slots hold a block, never on the
// allocator's answers: the same seed gives the same sequence under every allocator.
//
// A sequence is a row of phases, each with its own sizes, number of slots, order of slots and direction (growing,
// shrinking, level). Uniform randomness alone would never fill or empty whole spans.
#pragma once

#include <vector>

#include "property/operation.hpp"
#include "support/random.hpp"

namespace coffer::test {

inline constexpr std::uint32_t kSlots = 16 * 1024;

class Generator {
 public:
  // Every `check_every` operations one is Kind::check.
  Generator(std::uint64_t seed, std::uint64_t check_every);

  Operation next();

 private:
  enum class Sizes : std::uint8_t { mixed, one_class, two_classes, borders, tiny, multi_slot, slot_runs, chunks };
  enum class Order : std::uint8_t { random, upward, downward };
  struct Phase {
    Sizes sizes;
    Order order;
    std::uint32_t first, count;  // slots
    std::uint64_t class_size[2];
    std::uint32_t allocate_percent;  // when an empty slot comes up
    std::uint32_t free_percent;      // when a full one does
    std::uint64_t left;              // operations
    std::uint32_t cursor;
  };
  struct Held {
    bool full = false;
    std::uint64_t size = 0;
  };

  void start_phase();
  std::uint64_t pick_size();
  std::uint32_t pick_slot();
  Operation for_empty(std::uint32_t slot);
  Operation for_full(std::uint32_t slot);
  void put(std::uint32_t slot, std::uint64_t size);
  void take(std::uint32_t slot);

  Random random_;
  std::uint64_t check_every_;
  std::uint64_t made_ = 0;
  std::uint64_t held_bytes_ = 0;
  Phase phase_{};
  std::vector<Held> held_;
};

}  // namespace coffer::test
