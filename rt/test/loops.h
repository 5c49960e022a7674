/* SPDX-License-Identifier: MIT */
// Counts how often each loop of the tree runs in a call, and compares with the bounds that docs/design/rt.md proves and
// tools/longest_path.py uses. To be included before the sources.
#ifndef COFFER_RT_TEST_LOOPS_H
#define COFFER_RT_TEST_LOOPS_H

enum {
  LOOP_own,
  LOOP_lower_levels,
  LOOP_lower,
  LOOP_raise_levels,
  LOOP_raise,
  LOOP_descend,
  LOOP_climb,
  LOOP_blame,
  LOOP_whole,
  LOOP_joined,
  LOOP_COUNT
};
static unsigned g_loops[LOOP_COUNT];
static unsigned g_most[LOOP_COUNT];
#define RT_LOOP(name) (++g_loops[LOOP_##name])

#include "../src/heap.h"
#include "check.h"

static inline void rt_loops_start(void) {
  for (unsigned i = 0; i < LOOP_COUNT; ++i) {
    g_loops[i] = 0;
  }
}

// After a call about a block of level `target`.
static inline void rt_loops_check(unsigned top, unsigned target, bool has_sums) {
  const unsigned above = target > top ? 0U : top - target;
  CHECK(g_loops[LOOP_descend] <= above);
  CHECK(g_loops[LOOP_climb] <= top);
  CHECK(g_loops[LOOP_blame] <= top);
  CHECK(g_loops[LOOP_own] <= RT_RADIX_LOG2 * target);
  CHECK(g_loops[LOOP_lower_levels] <= above);
  const unsigned orders = RT_RADIX_LOG2 * (target + 1U);
  const unsigned one = has_sums ? 0U : orders - 1U;
  CHECK(g_loops[LOOP_lower] + (g_loops[LOOP_whole] * one) <= above * orders);
  CHECK(g_loops[LOOP_raise_levels] <= above);
  CHECK(g_loops[LOOP_raise] + (g_loops[LOOP_joined] * one) <= above * (orders - 1U) + (has_sums ? above : 0U));
  for (unsigned i = 0; i < LOOP_COUNT; ++i) {
    g_most[i] = g_loops[i] > g_most[i] ? g_loops[i] : g_most[i];
  }
}

#endif
