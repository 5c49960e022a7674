// SPDX-License-Identifier: MIT
#include "trial/handle.hpp"

#include <coffer/coffer.h>

#include <algorithm>
#include <cerrno>

#include "support/check.hpp"
#include "trial/kernel.hpp"

namespace coffer::trial {

coffer_heap* make_handle(usize bytes) {
  const u64 before = failed_calls();
  coffer_heap* const made = coffer_heap_create(bytes, nullptr);
  REQUIRE(made != nullptr || (failed_calls() > before && (errno == ENOMEM || errno == EAGAIN)),
          "coffer_heap_create of %zu bytes failed, without a reason: errno %d", bytes, errno);
  return made;
}

void expect_full(coffer_heap* heap, usize size, const Returns& then, const Returns& now) {
  // Others go on meanwhile, and may be in a call that has the heap's lock.
  const usize largest = coffer_heap_largest_free(heap);
  if (then.begun != then.ended || now.begun != then.begun) return;
  REQUIRE(largest < std::max(size, usize{1}), "a heap by handle has %zu bytes free in a piece, and gives none of %zu",
          largest, size);
}

void give_back(coffer_heap* heap, const Held& held, bool sized) {
  if (held.by_handle) {
    REQUIRE(coffer_heap_free(heap, held.at) == 0, "a heap by handle does not take its block back");
  } else if (!sized) {
    coffer_free(held.at);
  } else if (held.alignment == 0) {
    coffer_free_sized(held.at, held.size);
  } else {
    coffer_free_aligned_sized(held.at, held.alignment, held.size);
  }
}

void expect_sound(coffer_heap* heap, usize live, bool more) {
  REQUIRE(coffer_heap_check(heap) == 0, "a heap by handle is damaged");
  struct coffer_heap_info info;
  REQUIRE(coffer_heap_info(heap, &info, sizeof info) == 0, "a heap by handle has no figures");
  REQUIRE(more ? info.live_blocks >= live : info.live_blocks == live,
          "a heap by handle has %zu blocks, the program holds %zu", info.live_blocks, live);
}

}  // namespace coffer::trial
