// SPDX-License-Identifier: MIT
// A block with known contents that goes from hand to hand; whoever has it may verify, resize or free it.
#pragma once

#include <coffer/coffer.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "support/check.hpp"
#include "support/pattern.hpp"
#include "support/random.hpp"
#include "support/sizes.hpp"

namespace coffer::test {

struct HeldBlock {
  unsigned char* at = nullptr;
  std::size_t size = 0;
  std::uint64_t seed = 0;

  explicit operator bool() const { return at != nullptr; }
};

inline HeldBlock hold(void* at, std::size_t size, std::uint64_t seed) {
  REQUIRE(at != nullptr, "an allocation of %zu bytes failed, errno %d", size, errno);
  REQUIRE(reinterpret_cast<std::uintptr_t>(at) % kQuantum == 0, "block %p of %zu bytes is not aligned", at, size);
  fill_pattern(at, size, seed);
  return {static_cast<unsigned char*>(at), size, seed};
}

inline void verify(const HeldBlock& block, const char* when) {
  const std::size_t damage = find_damage(block.at, block.size, block.size, block.seed);
  REQUIRE(damage == kPatternGood, "block %p of %zu bytes is damaged at offset %zu, found %s",
          static_cast<void*>(block.at), block.size, damage, when);
}

inline HeldBlock allocate(Random& random, std::size_t size) { return hold(coffer_malloc(size), size, random.next()); }

// From a call that random picks: malloc, calloc, an aligned one or realloc.
inline HeldBlock allocate_any(Random& random, std::size_t size) {
  const std::uint64_t dice = random.below(10);
  if (dice < 6) return allocate(random, size);
  if (dice < 7) return hold(coffer_realloc(nullptr, size), size, random.next());
  if (dice < 9) {
    void* const at = coffer_calloc(1, size);
    if (at != nullptr) {
      const std::size_t found = find_nonzero(at, size);
      REQUIRE(found == kPatternGood, "calloc: block %p of %zu bytes is not zero at offset %zu", at, size, found);
    }
    return hold(at, size, random.next());
  }
  const std::size_t aligned_to = alignment(random);
  void* const at = coffer_aligned_alloc(aligned_to, size);
  REQUIRE(reinterpret_cast<std::uintptr_t>(at) % aligned_to == 0, "block %p is not aligned to %zu", at, aligned_to);
  return hold(at, size, random.next());
}

inline void release(HeldBlock& block) {
  verify(block, "before free");
  coffer_free(block.at);
  block = {};
}

inline void resize(HeldBlock& block, std::size_t size) {
  verify(block, "before realloc");
  void* const at = coffer_realloc(block.at, size);
  REQUIRE(at != nullptr, "realloc from %zu to %zu bytes failed, errno %d", block.size, size, errno);
  const std::size_t kept = size < block.size ? size : block.size;
  const std::size_t damage = find_damage(at, block.size, kept, block.seed);
  REQUIRE(damage == kPatternGood, "block %p is damaged at offset %zu by realloc from %zu to %zu bytes", at, damage,
          block.size, size);
  block = hold(at, size, block.seed);
}

// To be called while no other thread is inside the allocator.
inline void check_allocator(const char* when) {
  const std::size_t violations = coffer_check();
  REQUIRE(violations == 0, "coffer_check: %zu violations %s", violations, when);
}

inline std::size_t live_bytes() {
  struct coffer_stats stats = {};
  REQUIRE(coffer_stats(&stats, sizeof stats) == 0, "coffer_stats failed");
  return stats.live;
}

inline std::size_t held_bytes() {
  struct coffer_stats stats = {};
  REQUIRE(coffer_stats(&stats, sizeof stats) == 0, "coffer_stats failed");
  return stats.held;
}

}  // namespace coffer::test
