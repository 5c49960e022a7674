// Part of lists.c: the computed size against the worst that a program can do.
#ifndef COFFER_RT_TEST_ADVERSARY_H
#define COFFER_RT_TEST_ADVERSARY_H

// An adversary who may free any block at any time, and who also chooses among the nodes and runs that are as good as
// each other, cannot make a heap of the computed size fail: every state is tried.
struct state {
  uint64_t live;
  uint64_t starts;
};
#define LOG2_SLOTS 21U
#define SLOTS ((size_t)1 << LOG2_SLOTS)
static struct state g_seen[SLOTS];
static struct state g_stack[SLOTS / 2U];
static size_t g_stacked;
static size_t g_states;

static void add_state(uint64_t live, uint64_t starts) {
  const struct state key = {live, live == 0U ? 1U : starts};
  size_t slot = (size_t)(((live * 0x9E3779B97F4A7C15ULL) ^ (starts * 0xC2B2AE3D27D4EB4FULL)) >> (64U - LOG2_SLOTS));
  while (g_seen[slot].live != 0U || g_seen[slot].starts != 0U) {
    if (g_seen[slot].live == key.live && g_seen[slot].starts == key.starts) {
      return;
    }
    slot = (slot + 1U) & (SLOTS - 1U);
  }
  CHECK(g_states < SLOTS / 2U);
  g_seen[slot] = key;
  g_stack[g_stacked] = (struct state){live, starts};
  ++g_stacked;
  ++g_states;
}

// Adds what may follow a request; false if it fails.
static bool add_requests(const struct state* state, unsigned order) {
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
            add_state(state->live | bits(at, order), state->starts | ((uint64_t)1 << at));
          }
        }
      }
    }
  }
  return best != NOWHERE;
}

static bool can_fail(unsigned live, unsigned orders) {
  for (size_t i = 0; i < SLOTS; ++i) {
    g_seen[i] = (struct state){0, 0};
  }
  g_states = 0;
  g_stacked = 0;
  add_state(0, 0);
  while (g_stacked > 0U) {
    --g_stacked;
    const struct state state = g_stack[g_stacked];
    g_live = state.live;
    unsigned now = 0;
    for (unsigned at = 0; at < g_run.units; ++at) {
      now += (state.live & bits(at, 0)) != 0U ? 1U : 0U;
      if ((state.starts & bits(at, 0)) != 0U) {
        unsigned size = 1;
        while (at + size < g_run.units && (state.live & ~state.starts & bits(at + size, 0)) != 0U) {
          ++size;
        }
        add_state(state.live & ~((((uint64_t)1 << size) - 1U) << at), state.starts & ~bits(at, 0));
      }
    }
    for (unsigned order = 0; order <= orders && now + (1U << order) <= live; ++order) {
      if (!add_requests(&state, order)) {
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
  rt_put("live ");
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
