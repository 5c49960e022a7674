// SPDX-License-Identifier: MIT
// The heap-size formula: an adversary who knows everything and may free any block at any time cannot make a heap of the
// computed size fail; and from one run of the largest size less, often can. Every state is tried, on a model of lowest
// address first (exhaustive.c shows that the tree is one).
#include "../src/size.c"
#include "../src/lists.c"
#include "../src/lists_check.c"
#include "../src/tables.c"
#include "../src/tree.c"
#include "check.h"
#include "states.h"

static uint64_t ones(unsigned count) { return ((uint64_t)2 << (count - 1U)) - 1U; }

// Can a request fail on so many units, while at most `live` units and `blocks` blocks are live with it?
static bool can_fail(unsigned units, unsigned live, unsigned orders, unsigned blocks) {
  begin_states();
  for (size_t i = 0; i < g_state_count; ++i) {
    const struct state state = g_states[i];
    const unsigned now = count_ones(state.live);
    add_frees(state, units);
    for (unsigned order = 0; order <= orders && now + (1U << order) <= live; ++order) {
      if (count_ones(state.starts) + 1U > blocks) {
        break;
      }
      const unsigned size = 1U << order;
      unsigned at = 0;
      while (at + size <= units && (state.live & (ones(size) << at)) != 0U) {
        at += size;
      }
      if (at + size > units) {
        return true;
      }
      add_state(state.live | (ones(size) << at), state.starts | ((uint64_t)1 << at));
    }
  }
  return false;
}

static void check_formula(unsigned live, unsigned orders, bool is_tight) {
  const unsigned units = (unsigned)first_fit_units(live, orders);
  CHECK(units <= 32U);
  CHECK(!can_fail(units, live, orders, 32));
  rt_put("live ");
  rt_put_number(live);
  rt_put(", largest ");
  rt_put_number(1U << orders);
  rt_put(": ");
  rt_put_number(units);
  rt_put(" units are enough (");
  rt_put_number(g_state_count);
  rt_put(" states)");
  const bool fails = can_fail(units - 1U, live, orders, 32);
  rt_put(fails ? ", one less is not\n" : "\n");
  CHECK(fails || !is_tight);
}

static void check_blocks(void) {
  // With B blocks of 2^q units each request finds room in B * 2^q units, and not always in one unit less.
  for (unsigned blocks = 1; blocks <= 4U; ++blocks) {
    CHECK(!can_fail(blocks * 4U, 32, 2, blocks));
    CHECK(can_fail((blocks * 4U) - 1U, 32, 2, blocks));
  }
}

static void check_arithmetic(void) {
  CHECK(shift_up(0, 3) == 0U && shift_up(1, 3) == 1U && shift_up(8, 3) == 1U && shift_up(9, 3) == 2U);
  CHECK(scale(10, 0, 3) == 3U && scale(10, 4, 3) == 53U && scale(LIMIT - 1U, 8, 1) == LIMIT);
  CHECK(first_fit_units(1, 0) == 1U && first_fit_units(4, 2) == 6U && first_fit_units(100, 0) == 100U);
  // The closed form, where nothing is rounded: live * (1 + orders / 2), within one largest block.
  for (unsigned orders = 1; orders <= 20U; ++orders) {
    const uint64_t live = (uint64_t)1 << 24U;
    const uint64_t closed = live + (live / 2U * orders);
    const uint64_t computed = first_fit_units(live, orders);
    CHECK(computed <= closed && computed + ((uint64_t)2 << orders) > closed);
  }
}

// What the lists cost where size counts: a program whose every node ends as one live run of 8 units and a single one in
// each of the others. So it spreads over more than the tree ever needs, if not over more than computed.
#define SPREAD_LIVE 2000U
#define SPREAD_RUNS (RT_RADIX / 8U)
static void check_spread(void) {
  static unsigned char region[SPREAD_LIVE * 64U] __attribute__((aligned(4096)));
  static rt_word words[SPREAD_LIVE * 8U] __attribute__((aligned(32)));
  static unsigned char* blocks[SPREAD_LIVE][SPREAD_RUNS];
  // Whole nodes only.
  const size_t units = (size_t)lists_units(SPREAD_LIVE, 0, 3) / RT_RADIX * RT_RADIX;
  struct coffer_rt heap = {.base = region, .bytes = units * 8U, .min_log2 = 3};
  CHECK(heap.bytes <= sizeof(region) && coffer_rt_lists_words(units) <= SPREAD_LIVE * 8U);
  heap.u.nodes.level = (struct rt_lists_level*)(void*)words;
  init(&heap);
  const unsigned last = SPREAD_RUNS - 1U;
  unsigned nodes = 0;
  while ((nodes * (last + 8U)) + RT_RADIX <= SPREAD_LIVE) {
    for (unsigned i = 0; i < SPREAD_RUNS; ++i) {
      blocks[nodes][i] = alloc(&heap, 64);
      CHECK(blocks[nodes][i] != NULL);
    }
    // While the last run of each node is free, a node with one more free run is as good for a single unit as any.
    for (unsigned node = 0; node < nodes; ++node) {
      CHECK(give_back(&heap, blocks[node][last]) == COFFER_RT_OK);
    }
    for (unsigned i = 0; i < last; ++i) {
      unsigned char* const run = blocks[nodes][i];
      CHECK(give_back(&heap, run) == COFFER_RT_OK);
      blocks[nodes][i] = alloc(&heap, 8);
      CHECK(blocks[nodes][i] == run);
    }
    CHECK(give_back(&heap, blocks[nodes][last]) == COFFER_RT_OK);
    ++nodes;
    for (unsigned node = 0; node < nodes; ++node) {
      blocks[node][last] = alloc(&heap, 64);
      CHECK(blocks[node][last] != NULL);
    }
  }
  CHECK(nodes * RT_RADIX > first_fit_units(SPREAD_LIVE, 3));
  rt_put_number(SPREAD_LIVE);
  rt_put(" live units, in blocks of 1 and 8, spread over ");
  rt_put_number((uint64_t)nodes * RT_RADIX);
  rt_put(" with lists; the tree never needs more than ");
  rt_put_number(first_fit_units(SPREAD_LIVE, 3));
  rt_put(", lists ");
  rt_put_number(units);
  rt_put("\n");
}

static uint64_t live_of(size_t live, size_t blocks, size_t smallest, size_t largest) {
  const struct coffer_rt_load load = {
      .live_bytes = live, .live_blocks = blocks, .smallest = smallest, .largest = largest};
  struct range range;
  CHECK(range_of(&load, 16, &range));
  return live_units(&load, &range);
}

static void check_live_units(void) {
  CHECK(live_of(1600, 0, 16, 16) == 100U);
  CHECK(live_of(1600, 0, 1, 16) == 1600U);  // blocks of one byte in blocks of sixteen
  CHECK(live_of(1600, 10, 1, 16) == 10U);   // but only ten of them
  CHECK(live_of(1700, 0, 17, 32) == 100U);  // 100 requests of 17 bytes, in units of 32
  CHECK(live_of(1700, 0, 16, 32) == 200U);  // in units of 16
  CHECK(live_of(3300, 0, 16, 64) == 400U);  // 33 bytes in 64: twice
  CHECK(live_of(10, 0, 10, 1000) == 64U);   // one largest block at least
  CHECK(live_of(3300, 100, 16, 64) == 400U);
  CHECK(live_of(3300, 50, 16, 64) == 200U);
}

// No sum of requests takes more units than computed: all multisets of sizes up to 64 bytes with a small sum.
static uint64_t worst(unsigned left, unsigned blocks, unsigned smallest, unsigned largest) {
  uint64_t most = 0;
  for (unsigned size = smallest; size <= largest && size <= left && blocks > 0U; ++size) {
    unsigned units = 1;
    while (units * 16U < size) {
      units *= 2U;
    }
    const uint64_t here = units + worst(left - size, blocks - 1U, size, largest);
    most = here > most ? here : most;
  }
  return most;
}

static void check_rounding(void) {
  for (unsigned live = 40; live <= 130U; live += 9U) {
    for (unsigned blocks = 1; blocks <= 4U; ++blocks) {
      CHECK(worst(live, blocks, 9, 40) <= live_of(live, blocks, 9, 40));
    }
    CHECK(worst(live, 100, 15, 40) <= live_of(live, 0, 15, 40));
  }
}

static void check_region(void) {
  struct coffer_rt_load load = {.live_bytes = 100000, .smallest = 16, .largest = 4096};
  CHECK(coffer_rt_region_bytes(&load) > 0U);
  load.live_blocks = 3;
  CHECK(coffer_rt_region_bytes(&load) < 40000U);
  load.smallest = 0;
  CHECK(coffer_rt_region_bytes(&load) > 0U);
  load.live_blocks = 0;
  CHECK(coffer_rt_region_bytes(&load) == 0U);  // blocks of no bytes, as many as one likes
  load = (struct coffer_rt_load){.live_bytes = 10, .smallest = 16, .largest = 32};
  CHECK(coffer_rt_region_bytes(&load) == 0U);
  load = (struct coffer_rt_load){.live_bytes = 64, .smallest = 64, .largest = 32};
  CHECK(coffer_rt_region_bytes(&load) == 0U);
  load = (struct coffer_rt_load){.live_bytes = 64, .smallest = 16, .largest = 32, .min_block = 24};
  CHECK(coffer_rt_region_bytes(&load) == 0U);
  load = (struct coffer_rt_load){.live_bytes = SIZE_MAX, .smallest = 16, .largest = 32, .live_blocks = 2};
  CHECK(coffer_rt_region_bytes(&load) == (sizeof(size_t) == 8U ? 0U : coffer_rt_region_bytes(&load)));
  load = (struct coffer_rt_load){.live_bytes = 64, .smallest = 1, .largest = 32, .live_blocks = SIZE_MAX / 512U};
  CHECK(coffer_rt_region_bytes(&load) > 0U);
  load = (struct coffer_rt_load){.live_bytes = 64, .smallest = 1, .largest = 32, .live_blocks = SIZE_MAX};
  CHECK(sizeof(size_t) != 8U || coffer_rt_region_bytes(&load) == 0U);
  load = (struct coffer_rt_load){.live_bytes = (size_t)(MOST / 2U), .smallest = 16, .largest = 32};
  CHECK(coffer_rt_region_bytes(&load) == 0U);
  load = (struct coffer_rt_load){.live_bytes = 64, .smallest = 16, .largest = 64, .alignment = 8};
  CHECK(coffer_rt_region_bytes(&load) > 64U);
  load = (struct coffer_rt_load){.live_bytes = SIZE_MAX, .smallest = 16, .largest = 32};
  CHECK(coffer_rt_region_bytes(&load) == 0U);
  load = (struct coffer_rt_load){.live_bytes = 64, .smallest = 16, .largest = 32, .policy = COFFER_RT_KNUTH};
  CHECK(coffer_rt_region_bytes(&load) == 0U);
  for (size_t smallest = 16; smallest <= 256U; smallest *= 4U) {
    load = (struct coffer_rt_load){.live_bytes = 10000, .smallest = smallest, .largest = 4096};
    const size_t tree = coffer_rt_region_bytes(&load);
    load.policy = COFFER_RT_LISTS;
    const size_t lists = coffer_rt_region_bytes(&load);
    load.live_blocks = 5;
    CHECK(tree < lists && lists < 30U * tree && coffer_rt_region_bytes(&load) < lists);
  }
  load = (struct coffer_rt_load){
      .live_bytes = (size_t)(MOST / 2U), .smallest = 16, .largest = 32, .policy = COFFER_RT_LISTS};
  CHECK(coffer_rt_region_bytes(&load) == 0U);
  load = (struct coffer_rt_load){.live_bytes = SIZE_MAX / 4U, .smallest = 16, .largest = SIZE_MAX / 4U};
  CHECK(coffer_rt_region_bytes(&load) == 0U);
}

int main(int argc, char** argv) {
  check_arithmetic();
  check_live_units();
  check_rounding();
  check_region();
  check_blocks();
  check_spread();
  for (unsigned live = 2; live <= 12U; ++live) {
    check_formula(live, 1, true);
  }
  check_formula(4, 2, true);
  check_formula(6, 2, true);
  check_formula(8, 2, true);
  check_formula(8, 3, true);
  if (argc > 1 && argv[1][0] == 'l') {
    check_formula(10, 2, true);
    check_formula(12, 2, true);
    check_formula(10, 3, true);
  }
  return 0;
}
