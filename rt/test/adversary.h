/* SPDX-License-Identifier: MIT */
// Part of lists.c: the computed size against the worst that a program can do.
#ifndef COFFER_RT_TEST_ADVERSARY_H
#define COFFER_RT_TEST_ADVERSARY_H

#include "states.h"

// An adversary who may free any block at any time, and who also chooses among the nodes and runs that are as good as
// each other, cannot make a heap of the computed size fail: every state is tried. With sums, a block counts as the
// power of two that it is rounded up to, and requests go by `units` of it.

static unsigned live_units_of(const struct state* state) {
  unsigned sum = 0;
  for (unsigned at = 0; at < g_run.units; ++at) {
    if (((state->starts >> at) & 1U) != 0U) {
      sum += 1U << order_for(block_units(*state, at, g_run.units));
    }
  }
  return sum;
}

// Adds what may follow a request; false if it fails.
static bool add_requests(const struct state* state, unsigned units) {
  const unsigned order = order_for(units);
  const unsigned level = order / RT_RADIX_LOG2;
  unsigned best = NOWHERE;
  for (unsigned pass = 0; pass < 2U; ++pass) {  // the best class, then all nodes of it
    for (unsigned at_level = level; at_level <= g_run.top; ++at_level) {
      const unsigned log2 = (at_level + 1U) * RT_RADIX_LOG2;
      for (unsigned node = 0; (node << log2) < g_run.units; ++node) {
        const int class = model_class(at_level, node);
        if (class < (int)order || (at_level < g_run.top && model_is_whole(at_level, node))) {
          continue;
        }
        const bool is_top = at_level == g_run.top;
        const unsigned found = is_top ? NOWHERE - 1U : (unsigned)class;
        best = pass == 0U && found < best ? found : best;
        // The top node has no list: any run that is large enough may be cut.
        const unsigned least = order > at_level * RT_RADIX_LOG2 ? order : at_level * RT_RADIX_LOG2;
        const unsigned run = is_top ? least : (unsigned)class;
        const unsigned end = (node + 1U) << log2 < g_run.units ? (node + 1U) << log2 : g_run.units;
        for (unsigned at = node << log2; pass == 1U && found == best && at + (1U << run) <= end; at += 1U << run) {
          if ((g_live & bits(at, run)) == 0U) {
            add_state(state->live | cells_of(at, units), state->starts | ((uint64_t)1 << at));
          }
        }
      }
    }
  }
  return best != NOWHERE;
}

static bool can_fail(unsigned live, unsigned orders) {
  begin_states();
  for (size_t i = 0; i < g_state_count; ++i) {
    const struct state state = g_states[i];
    g_live = state.live;
    const unsigned now = live_units_of(&state);
    add_frees(state, g_run.units);
    for (unsigned units = 1; units <= 1U << orders && now + (1U << order_for(units)) <= live; ++units) {
      if (is_asked(units) && units_for(units, g_run.sums) == units && !add_requests(&state, units)) {
        return true;
      }
    }
  }
  return false;
}

static void check_size(unsigned live, unsigned orders) {
  const unsigned enough = (unsigned)lists_units(live, 0, orders);
  CHECK(enough <= MAX_UNITS);
  unsigned least = enough;
  for (unsigned units = live; units <= enough; ++units) {
    g_run.units = units;
    g_run.top = level_count(units) - 1U;
    const bool fails = can_fail(live, orders);
    least = !fails && units < least ? units : least;
    CHECK(!fails || units < enough);
  }
  rt_put(g_run.sums ? "sums, live " : "live ");
  rt_put_number(live);
  rt_put(", largest ");
  rt_put_number((uint64_t)1 << orders);
  rt_put(": ");
  rt_put_number(enough);
  rt_put(" units are enough, and none fails from ");
  rt_put_number(least);
  rt_put(" on\n");
}

#endif
