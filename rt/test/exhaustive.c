// SPDX-License-Identifier: MIT
// Every state that a tiny heap can reach by allocating and freeing, and every call from each of them, against a model:
// addresses, refusals, wrong frees, the state after each call, and how often each loop ran.
//
// The tree's state follows from which blocks are live (check 2 below shows it), so the states are the sets of live
// blocks, and each is visited once. The words hold four units here, so 8 to 32 units are two or three levels.
#define COFFER_RT_RADIX_LOG2 2
#include "loops.h"

#include "../src/tables.c"
#include "../src/tree.c"
#include "../src/tree_check.c"
#include "check.h"
#include "states.h"
#include "units.h"

#define MAX_UNITS 32U
#define MAX_BLOCKS 32U
#define WORDS 256U

static struct {
  unsigned units;
  unsigned max_live;  // blocks; more are not tried
  uint32_t orders;    // which orders are asked for
  bool sums;
  uint64_t calls;
  uint64_t refused;
} g_run;

static rt_word g_words[WORDS];
static rt_word g_fresh[WORDS];
static struct coffer_rt g_heap;

static void copy_words(rt_word* to, const rt_word* from) {
  for (size_t i = 0; i < WORDS; ++i) {
    to[i] = from[i];
  }
}

static bool are_words_equal(const rt_word* a, const rt_word* b) {
  for (size_t i = 0; i < WORDS; ++i) {
    if (a[i] != b[i]) {
      return false;
    }
  }
  return true;
}

static uint64_t ones(unsigned count) { return ((uint64_t)1 << count) - 1U; }

// Where Knuth's system, all buddies joined, has room: the lowest aligned run of 2^order free units; 32 if none.
static unsigned model_place(uint64_t live, unsigned order) {
  for (unsigned at = 0; at + (1U << order) <= g_run.units; at += 1U << order) {
    if ((live & (ones(1U << order) << at)) == 0U) {
      return at;
    }
  }
  return 32;
}

// The tree for a set of live blocks, made from a fresh one.
static void build(struct state state) {
  copy_words(g_words, g_fresh);
  for (unsigned at = 0; at < g_run.units; ++at) {
    if (((state.starts >> at) & 1U) != 0U) {
      const unsigned units = block_units(state, at, g_run.units);
      const unsigned level = level_of(units);
      const unsigned cell = at >> (level * RT_RADIX_LOG2);
      const unsigned cells = units >> (level * RT_RADIX_LOG2);
      occupy(&g_heap, level, cell >> RT_RADIX_LOG2, (((rt_word)1 << cells) - 1U) << (cell & (RT_RADIX - 1U)));
    }
  }
}

static unsigned char* address_of(unsigned unit) { return g_heap.base + ((size_t)unit * 8U); }

static void check_alloc(struct state state, const rt_word* before, unsigned units) {
  const unsigned order = order_for(units);
  const unsigned place = model_place(state.live, order);
  rt_loops_start();
  const unsigned char* block = coffer_rt_tree_take(&g_heap, (size_t)units * 8U);
  rt_loops_check(g_heap.u.tree.top, level_of(units_for(units, g_run.sums)), g_run.sums);
  ++g_run.calls;
  if (place == 32U) {
    CHECK(block == NULL);
    CHECK(are_words_equal(g_words, before));
    ++g_run.refused;
    return;
  }
  CHECK(block == address_of(place));
  const unsigned got = units_for(units, g_run.sums);
  CHECK(coffer_rt_tree_usable_size(&g_heap, block) == (size_t)got * 8U);
  CHECK(coffer_rt_tree_check(&g_heap) == COFFER_RT_OK);
  // Freeing leads back to exactly the same state.
  rt_loops_start();
  CHECK(coffer_rt_tree_free(&g_heap, block) == COFFER_RT_OK);
  rt_loops_check(g_heap.u.tree.top, level_of(got), g_run.sums);
  CHECK(are_words_equal(g_words, before));
  add_state(state.live | (ones(got) << place), state.starts | ((uint64_t)1 << place));
}

static void check_free(struct state state, const rt_word* before, unsigned at) {
  const bool is_start = ((state.starts >> at) & 1U) != 0U;
  const bool is_live = ((state.live >> at) & 1U) != 0U;
  const unsigned units = is_start ? block_units(state, at, g_run.units) : 1U;
  rt_loops_start();
  const enum coffer_rt_error error = coffer_rt_tree_free(&g_heap, address_of(at));
  rt_loops_check(g_heap.u.tree.top, level_of(units), g_run.sums);
  ++g_run.calls;
  if (!is_start) {
    CHECK(error == (is_live ? COFFER_RT_BAD : COFFER_RT_DOUBLE));
    CHECK(are_words_equal(g_words, before));
    return;
  }
  CHECK(error == COFFER_RT_OK);
  CHECK(coffer_rt_tree_check(&g_heap) == COFFER_RT_OK);
  copy_words(g_words, before);
}

static void visit(struct state state) {
  static rt_word before[WORDS];
  build(state);
  copy_words(before, g_words);
  CHECK(coffer_rt_tree_check(&g_heap) == COFFER_RT_OK);
  size_t largest = 0;
  for (unsigned order = 0; (1U << order) <= g_run.units; ++order) {
    largest = model_place(state.live, order) < 32U ? (size_t)8U << order : largest;
  }
  CHECK(coffer_rt_tree_largest_free(&g_heap) == largest);
  for (unsigned at = 0; at < g_run.units; ++at) {
    check_free(state, before, at);
  }
  add_frees(state, g_run.units);
  if (count_ones(state.starts) < g_run.max_live) {
    for (unsigned units = 1; order_for(units) <= order_for(g_run.units); ++units) {
      const bool is_power = (units & (units - 1U)) == 0U;
      if ((is_power || g_run.sums) && ((g_run.orders >> order_for(units)) & 1U) != 0U) {
        check_alloc(state, before, units);
      }
    }
  }
}

static void explore(unsigned units, unsigned max_live, uint32_t orders, bool sums) {
  static unsigned char region[MAX_UNITS * 8U] __attribute__((aligned(8)));
  g_heap.base = region;
  g_heap.bytes = (size_t)units * 8U;
  g_heap.min_log2 = 3;
  g_heap.sums = sums;
  g_run.units = units;
  g_run.max_live = max_live;
  g_run.orders = orders;
  g_run.sums = sums;
  g_run.calls = 0;
  g_run.refused = 0;
  CHECK(coffer_rt_tree_words(units) <= WORDS);
  coffer_rt_tree_init(&g_heap, g_words);
  copy_words(g_fresh, g_words);
  begin_states();
  for (size_t i = 0; i < g_state_count; ++i) {
    visit(g_states[i]);
  }
  CHECK(g_run.refused > 0U);
  rt_put_number(units);
  rt_put(sums ? " units, sums, at most " : " units, at most ");
  rt_put_number(max_live);
  rt_put(" blocks: ");
  rt_put_number(g_state_count);
  rt_put(" states, ");
  rt_put_number(g_run.calls);
  rt_put(" calls, all as the model says\n");
}

int main(int argc, char** argv) {
  const bool is_long = argc > 1 && argv[1][0] == 'l';
  const uint32_t all = 0xFFFFFFFFU;
  for (unsigned units = 8; units <= 13U; ++units) {
    explore(units, MAX_BLOCKS, all, false);
  }
  explore(8, MAX_BLOCKS, all, true);
  explore(11, MAX_BLOCKS, all, true);
  explore(16, 4, all, true);
  explore(21, 4, all, false);
  explore(32, 3, all, false);
  explore(32, MAX_BLOCKS, 0x3CU, false);  // blocks of 4 units and more
  if (is_long) {
    explore(14, MAX_BLOCKS, all, false);
    explore(15, MAX_BLOCKS, all, false);
    explore(16, MAX_BLOCKS, all, false);
    explore(24, 5, all, false);
    explore(32, 4, all, true);
  }
  return 0;
}
