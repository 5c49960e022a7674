// SPDX-License-Identifier: MIT
#include "trial/room.hpp"

#include <coffer/coffer.h>

#include <vector>

#include "budget/budget.hpp"
#include "support/check.hpp"
#include "trial/kernel.hpp"
#include "trial/rest.hpp"

namespace coffer::trial {

namespace {

constexpr usize kSizes[] = {30'000, 4'000, 500};
constexpr usize kMuch = usize{8} << 20;  // blocks of the first size alone: smaller ones take long

struct coffer_stats figures() {
  struct coffer_stats stats = {};
  coffer_stats(&stats, sizeof stats);
  return stats;
}

std::vector<void*> fill(usize size) {
  std::vector<void*> got;
  while (void* const at = coffer_malloc(size)) got.push_back(at);
  return got;
}

void give_back_all(const std::vector<void*>& blocks) {
  for (void* const at : blocks) coffer_free(at);
}

}  // namespace

void expect_room(u64 kind, usize largest, bool is_child) {
  const struct coffer_stats stats = figures();
  refuse_memory(true);
  const usize size = kSizes[stats.committed < kMuch ? kind % 3 : 0];
  const std::vector<void*> got = fill(size);
  const usize had = figures().live - stats.live;
  give_back_all(got);
  // What is left of lost blocks' spans, and of large ones' last chunks, is not free.
  const usize free = stats.committed - (is_child ? stats.held + large_tails() : 0);
  REQUIRE(had >= free / 4 * 3, "of %zu bytes that are free %zu can be had, by blocks of %zu", free, had, size);
  if (largest != 0 && !is_child) {
    coffer_malloc_trim(0);  // what is resident would be found first
    void* const again = coffer_malloc(largest);
    REQUIRE(again != nullptr, "a block of %zu bytes cannot be had again", largest);
    coffer_free(again);
  }
  refuse_memory(false);
}

void expect_limit_holds() {
  const struct coffer_stats stats = figures();
  const usize room = (stats.committed - stats.held) / 2;
  const usize limit = budget().charged.load(relaxed) + room;  // relaxed, both: everything rests
  refuse_memory(true);
  coffer_set_limit(limit);
  const std::vector<void*> got = fill(kSizes[0]);
  const usize charged = budget().charged.load(relaxed), had = figures().live - stats.live;
  REQUIRE(charged <= limit, "%zu bytes are charged, the limit is %zu", charged, limit);
  REQUIRE(had >= room / 8 * 5, "of %zu bytes below the limit %zu can be had", room, had);
  give_back_all(got);
  coffer_set_limit(0);
  refuse_memory(false);
}

}  // namespace coffer::trial
