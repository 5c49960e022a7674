// SPDX-License-Identifier: MIT
// The heap by handle (coffer_heap_create) of a world: all threads take blocks from it, give them back, and fork.
#pragma once

#include "base/base.hpp"
#include "trial/blocks.hpp"

struct coffer_heap;

namespace coffer::trial {

// nullptr: the kernel refused memory.
coffer_heap* make_handle(usize bytes);
// Calls that may give memory back to the heap.
struct Returns {
  u64 begun = 0, ended = 0;
};
// An allocation failed that began `then`: no block of the heap is that large, unless another call gave memory back
// since, too late for it. `now` changes as they do.
void expect_full(coffer_heap* heap, usize size, const Returns& then, const Returns& now);
// To the heap by handle if it is from there, else to malloc's; sized: with its size.
void give_back(coffer_heap* heap, const Held& held, bool sized);
// `live` blocks, and nothing is damaged. In a fork child there may be more.
void expect_sound(coffer_heap* heap, usize live, bool more);

}  // namespace coffer::trial
