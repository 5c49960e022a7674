// SPDX-License-Identifier: MIT
// Blocks of the C library's malloc, in a process where Coffer does not start (os::support) and that malloc serves in
// its place: what is done with a block that no arena has.
#pragma once

#include "base/atomic.hpp"

namespace coffer::harden {

struct Foreign {
  void (*release)(void* block);
  void* (*resize)(void* block, usize size);
  usize (*usable)(void* block);
};

// nullptr, as long as Coffer serves. Set once, by api/, before it hands out the first such block.
inline constinit Atomic<const Foreign*> g_foreign;

// acquire: pairs with the release in api/system_malloc.cpp; whoever holds a block has synchronised with it besides.
inline const Foreign* foreign() { return g_foreign.load(acquire); }

}  // namespace coffer::harden
