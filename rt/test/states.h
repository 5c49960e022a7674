/* SPDX-License-Identifier: MIT */
// The states of a heap that allocations and frees can bring about: each is visited once.
#ifndef COFFER_RT_TEST_STATES_H
#define COFFER_RT_TEST_STATES_H

#include <stddef.h>
#include <stdint.h>

#include "check.h"

// Units that are live, and those of them at which a block starts.
struct state {
  uint64_t live;
  uint64_t starts;
};

#define LOG2_SLOTS 22U
#define SLOTS ((size_t)1 << LOG2_SLOTS)
static struct state g_seen[SLOTS];         // by hash; all zeros: none
static struct state g_states[SLOTS / 2U];  // in the order in which they were seen: walked while it grows
static size_t g_state_count;

static void add_state(uint64_t live, uint64_t starts) {
  const struct state key = {live, live == 0U ? 1U : starts};
  size_t slot = (size_t)(((live * 0x9E3779B97F4A7C15ULL) ^ (starts * 0xC2B2AE3D27D4EB4FULL)) >> (64U - LOG2_SLOTS));
  while (g_seen[slot].live != 0U || g_seen[slot].starts != 0U) {
    if (g_seen[slot].live == key.live && g_seen[slot].starts == key.starts) {
      return;
    }
    slot = (slot + 1U) & (SLOTS - 1U);
  }
  CHECK(g_state_count < SLOTS / 2U);
  g_seen[slot] = key;
  g_states[g_state_count] = (struct state){live, starts};
  ++g_state_count;
}

// Forgets all, and begins with the empty heap.
static void begin_states(void) {
  for (size_t i = 0; i < SLOTS; ++i) {
    g_seen[i] = (struct state){0, 0};
  }
  g_state_count = 0;
  add_state(0, 0);
}

// How many units the block has that starts at one.
static unsigned block_units(struct state state, unsigned start, unsigned units) {
  unsigned size = 1;
  while (start + size < units && (((state.live & ~state.starts) >> (start + size)) & 1U) != 0U) {
    ++size;
  }
  return size;
}

// The states that the frees of one block each lead to.
static inline void add_frees(struct state state, unsigned units) {
  for (unsigned at = 0; at < units; ++at) {
    if (((state.starts >> at) & 1U) != 0U) {
      const unsigned size = block_units(state, at, units);
      const uint64_t mask = (((uint64_t)2 << (size - 1U)) - 1U) << at;
      add_state(state.live & ~mask, state.starts & ~((uint64_t)1 << at));
    }
  }
}

static inline unsigned count_ones(uint64_t word) {
  unsigned count = 0;
  for (uint64_t x = word; x != 0U; x &= x - 1U) {
    ++count;
  }
  return count;
}

#endif
