// SPDX-License-Identifier: MIT
// Every set of live blocks of tiny heaps, and every call from each of them, under the policy with lists: refusals, what
// is given out, wrong frees, sizes changed in place, the state after each call, and how often each loop ran.
//
// Which node a request gets depends on the lists' order, so all placements are tried, not only those of one history:
// the states are all sets of blocks, each built once from its lowest and once from its highest block. Words hold four
// units here, so that 8 to 64 units are two to four levels; and eight once more (wide_lists), so that a sum of powers
// of two may be less than half a node.
#ifndef COFFER_RT_RADIX_LOG2
#define COFFER_RT_RADIX_LOG2 2
#endif

enum {
  LOOP_scale,
  LOOP_empty,
  LOOP_near,
  LOOP_exact,
  LOOP_listed,
  LOOP_cut,
  LOOP_split,
  LOOP_rise,
  LOOP_filled,
  LOOP_relisted,
  LOOP_blame,
  LOOP_down,
  LOOP_stand,
  LOOP_occupy,
  // The tree's, which size.c brings along.
  LOOP_climb,
  LOOP_joined,
  LOOP_own,
  LOOP_lower_levels,
  LOOP_lower,
  LOOP_raise_levels,
  LOOP_raise,
  LOOP_descend,
  LOOP_whole,
  LOOP_COUNT
};
static unsigned g_loops[LOOP_COUNT];
#define RT_LOOP(name) (++g_loops[LOOP_##name])

#include "../src/lists.c"
#include "../src/lists_check.c"
#include "../src/size.c"
#include "../src/tables.c"
#include "../src/tree.c"
#include "check.h"
#include "units.h"

#define MAX_UNITS 64U
#define MAX_BLOCKS 64U
#define WORDS 1024U
#define NOWHERE 255U

struct block {
  unsigned unit;
  unsigned units;
};

static struct {
  unsigned units;
  unsigned max_live;
  unsigned least_order;
  bool sums;
  unsigned top;
  uint64_t states;
  uint64_t calls;
  uint64_t refused;
} g_run;

static struct coffer_rt g_heap;
static rt_word g_words[WORDS] __attribute__((aligned(32)));
static unsigned char g_region[MAX_UNITS * 8U] __attribute__((aligned(512)));
static struct block g_blocks[MAX_BLOCKS];
static unsigned g_count;
static uint64_t g_live;

static uint64_t cells_of(unsigned unit, unsigned units) {
  return ((units >= 64U ? 0U : (uint64_t)1 << units) - 1U) << unit;
}
static uint64_t bits(unsigned unit, unsigned order) { return cells_of(unit, 1U << order); }
static unsigned char* address_of(unsigned unit) { return g_region + ((size_t)unit * 8U); }
static size_t bytes_of(unsigned units) { return (size_t)8U * units; }

static void start_call(void) {
  for (unsigned i = 0; i < LOOP_COUNT; ++i) {
    g_loops[i] = 0;
  }
  ++g_run.calls;
}

// docs/design/rt.md, "Loop bounds".
static void check_loops(unsigned level) {
  const unsigned above = g_run.top >= level ? g_run.top - level : 0U;
  const unsigned between = above > 0U ? above - 1U : 0U;
  const unsigned empty = above * RT_RADIX_LOG2;
  const unsigned near = above > 0U ? RT_RADIX_LOG2 - 1U : 0U;
  CHECK(g_loops[LOOP_scale] <= level && g_loops[LOOP_near] <= (above > 0U ? 1U : 0U) && g_loops[LOOP_exact] <= 1U);
  CHECK(g_loops[LOOP_empty] + g_loops[LOOP_listed] + (g_loops[LOOP_near] * (empty - near)) +
            (g_loops[LOOP_exact] * near) <=
        empty);
  CHECK(g_loops[LOOP_cut] + g_loops[LOOP_listed] <= between && g_loops[LOOP_rise] <= g_run.top);
  CHECK(g_loops[LOOP_filled] + g_loops[LOOP_relisted] <= above && g_loops[LOOP_relisted] <= 1U);
  CHECK(g_loops[LOOP_split] <= (g_run.sums && level > 0U ? 1U : 0U));
  CHECK(g_loops[LOOP_blame] + g_loops[LOOP_rise] <= g_run.top && g_loops[LOOP_down] <= g_run.top * RT_RADIX_LOG2);
}

// The lowest aligned run of 2^order free units, where Knuth's system, all buddies joined, has room.
static unsigned model_place(unsigned order) {
  for (unsigned at = 0; at + (1U << order) <= g_run.units; at += 1U << order) {
    if ((g_live & bits(at, order)) == 0U) {
      return at;
    }
  }
  return NOWHERE;
}

// The order of the largest free run of cells of a node, all of whose cells are not free; -1 if there is none.
static int model_class(unsigned level, unsigned node) {
  const unsigned log2 = (level + 1U) * RT_RADIX_LOG2;
  const unsigned first = node << log2;
  const unsigned end = first + (1U << log2) < g_run.units ? first + (1U << log2) : g_run.units;
  int best = -1;
  for (unsigned order = level * RT_RADIX_LOG2; order < log2; ++order) {
    for (unsigned at = first; at + (1U << order) <= end; at += 1U << order) {
      best = (g_live & bits(at, order)) == 0U ? (int)order : best;
    }
  }
  return best;
}

static bool model_is_whole(unsigned level, unsigned node) {
  const unsigned log2 = (level + 1U) * RT_RADIX_LOG2;
  return ((node + 1U) << log2) <= g_run.units && (g_live & bits(node << log2, log2)) == 0U;
}

// A request takes from the node whose largest run is the smallest that is large enough: section 3.1 stands on it.
static void check_choice(unsigned unit, unsigned order) {
  unsigned level = order / RT_RADIX_LOG2;
  while (level < g_run.top && model_is_whole(level, unit >> ((level + 1U) * RT_RADIX_LOG2))) {
    ++level;
  }
  const int chosen = model_class(level, unit >> ((level + 1U) * RT_RADIX_LOG2));
  CHECK(chosen >= (int)order);
  for (unsigned other = order / RT_RADIX_LOG2; other < g_run.top; ++other) {
    const unsigned log2 = (other + 1U) * RT_RADIX_LOG2;
    for (unsigned node = 0; (node << log2) < g_run.units; ++node) {
      const int class = model_class(other, node);
      CHECK(class < (int)order || class >= chosen || model_is_whole(other, node));
    }
  }
}

static void check_state(void) {
  CHECK(coffer_rt_lists_check(&g_heap) == COFFER_RT_OK);
  size_t largest = 0;
  for (unsigned order = 0; (1U << order) <= g_run.units; ++order) {
    largest = model_place(order) != NOWHERE ? bytes_of(1U << order) : largest;
  }
  CHECK(largest_free(&g_heap) == largest);
}

static void build(bool is_upwards) {
  g_heap.u.nodes.level = (struct rt_lists_level*)(void*)g_words;
  init(&g_heap);
  for (unsigned i = 0; i < g_count; ++i) {
    const struct block* block = &g_blocks[is_upwards ? i : g_count - 1U - i];
    const unsigned level = level_of(block->units);
    struct span span = {g_heap.u.nodes.level + level, block->unit >> (level * RT_RADIX_LOG2), 0};
    span.mask = (rt_word)cells_of(0, block->units >> (level * RT_RADIX_LOG2)) << (span.cell & (RT_RADIX - 1U));
    make_live(&g_heap, &span);
  }
}

static bool is_start(unsigned unit) {
  bool found = false;
  for (unsigned i = 0; i < g_count; ++i) {
    found = found || g_blocks[i].unit == unit;
  }
  return found;
}

static void check_alloc(unsigned units) {
  const unsigned order = order_for(units);
  const unsigned got = units_for(units, g_run.sums);
  start_call();
  const unsigned char* block = alloc(&g_heap, bytes_of(units) - (units % 3U));
  check_loops(order / RT_RADIX_LOG2);
  const unsigned place = model_place(order);
  if (place == NOWHERE) {
    CHECK(block == NULL);
    ++g_run.refused;
    return;
  }
  CHECK(block != NULL && block >= g_region);
  const unsigned unit = (unsigned)((size_t)(block - g_region) / 8U);
  CHECK(block == address_of(unit) && unit % (1U << order) == 0U && unit + (1U << order) <= g_run.units);
  CHECK((g_live & bits(unit, order)) == 0U);
  check_choice(unit, order);
  CHECK(usable_size(&g_heap, block) == bytes_of(got));
  g_live |= cells_of(unit, got);
  check_state();
  start_call();
  CHECK(give_back(&g_heap, address_of(unit)) == COFFER_RT_OK);
  check_loops(level_of(got));
  g_live &= ~cells_of(unit, got);
  check_state();
}

// Is a size one to ask for: a power of two, or any with sums?
static bool is_asked(unsigned units) { return g_run.sums || (units & (units - 1U)) == 0U; }

// Frees a block, and asks for each size where it stood.
static void check_block(const struct block* block) {
  unsigned char* const address = address_of(block->unit);
  const uint64_t others = g_live & ~cells_of(block->unit, block->units);
  for (unsigned units = 1; units <= 2U * g_run.units; ++units) {
    if (is_asked(units)) {
      start_call();
      const unsigned got = units_for(units, g_run.sums);
      const bool fits = block->unit % (1U << order_for(units)) == 0U && block->unit + got <= g_run.units &&
                        (others & cells_of(block->unit, got)) == 0U;
      CHECK(resize(&g_heap, address, bytes_of(units)) == fits);
      CHECK(usable_size(&g_heap, address) == bytes_of(fits ? got : block->units));
      CHECK(coffer_rt_lists_check(&g_heap) == COFFER_RT_OK);
      CHECK(resize(&g_heap, address, bytes_of(block->units)));
    }
  }
  check_state();
  start_call();
  CHECK(give_back(&g_heap, address) == COFFER_RT_OK);
  check_loops(level_of(block->units));
  g_live = others;
  check_state();
  g_live |= cells_of(block->unit, block->units);
}

static void check_wrong_frees(void) {
  static rt_word before[WORDS];
  for (size_t i = 0; i < WORDS; ++i) {
    before[i] = g_words[i];
  }
  for (unsigned unit = 0; unit < g_run.units; ++unit) {
    const bool is_live = (g_live & bits(unit, 0)) != 0U;
    CHECK(give_back(&g_heap, address_of(unit) + 4) == COFFER_RT_BAD);
    if (!is_start(unit)) {
      start_call();
      CHECK(give_back(&g_heap, address_of(unit)) == (is_live ? COFFER_RT_BAD : COFFER_RT_DOUBLE));
      check_loops(0);
      CHECK(usable_size(&g_heap, address_of(unit)) == 0U && !resize(&g_heap, address_of(unit), 8));
    }
  }
  for (size_t i = 0; i < WORDS; ++i) {
    CHECK(before[i] == g_words[i]);
  }
}

static int see(void* context, void* block, size_t bytes, int is_live) {
  unsigned* next = context;
  CHECK(block == address_of(*next) && is_live == ((g_live & bits(*next, 0)) != 0U ? 1 : 0));
  *next += (unsigned)(bytes / 8U);
  return *next >= g_run.units ? 5 : 0;
}

static void visit(void) {
  ++g_run.states;
  for (unsigned way = 0; way < 2U; ++way) {
    build(way == 0U);
    check_state();
    check_wrong_frees();
    unsigned next = 0;
    CHECK(coffer_rt_lists_walk(&g_heap, see, &next) == 5 && next == g_run.units);
    for (unsigned units = 1; units <= 2U * g_run.units; ++units) {
      if (is_asked(units)) {
        check_alloc(units);
      }
    }
    CHECK(alloc(&g_heap, SIZE_MAX) == NULL);
  }
  for (unsigned i = 0; i < g_count; ++i) {
    build(i % 2U == 0U);
    check_block(&g_blocks[i]);
  }
}

// All sets of blocks from a unit on.
static void explore_from(unsigned unit) {
  if (unit == g_run.units) {
    visit();
    return;
  }
  explore_from(unit + 1U);
  for (unsigned units = 1U << g_run.least_order; g_count < g_run.max_live && unit + units <= g_run.units; ++units) {
    const unsigned order = order_for(units);
    // The top node has room for one cell more than there are, so no block is as large as that.
    if (is_asked(units) && units_for(units, g_run.sums) == units && unit % (1U << order) == 0U &&
        level_of(units) <= g_run.top) {
      g_blocks[g_count] = (struct block){unit, units};
      ++g_count;
      g_live |= cells_of(unit, units);
      explore_from(unit + units);
      g_live &= ~cells_of(unit, units);
      --g_count;
    }
  }
}

static void explore(unsigned units, unsigned max_live, unsigned least_order, bool sums) {
  g_heap.base = g_region;
  g_heap.bytes = (size_t)units * 8U;
  g_heap.min_log2 = 3;
  g_run.units = units;
  g_run.max_live = max_live;
  g_run.least_order = least_order;
  g_run.sums = sums;
  g_heap.sums = sums;
  g_run.top = level_count(units) - 1U;
  g_run.states = 0;
  g_run.calls = 0;
  g_run.refused = 0;
  CHECK(coffer_rt_lists_words(units) <= WORDS);
  g_heap.u.nodes.level = (struct rt_lists_level*)(void*)g_words;
  explore_from(0);
  CHECK(g_run.refused > 0U);
  rt_put_number(units);
  rt_put(sums ? " units, sums, at most " : " units, at most ");
  rt_put_number(max_live);
  rt_put(" blocks: ");
  rt_put_number(g_run.states);
  rt_put(" states, ");
  rt_put_number(g_run.calls);
  rt_put(" calls, all as the model says\n");
}

// Heaps so large that no size is too large for them, and sizes of 0.
static void check_ends(void) {
  g_heap.base = g_region;
  g_heap.bytes = (size_t)7U << (RT_WORD_BITS - 3U);
  g_heap.min_log2 = RT_WORD_BITS - 3U;
  g_heap.u.nodes.level = (struct rt_lists_level*)(void*)g_words;
  init(&g_heap);
  CHECK(g_heap.u.nodes.limit == PTRDIFF_MAX);
  g_heap.bytes = 80;
  g_heap.min_log2 = 3;
  init(&g_heap);
  unsigned char* block = alloc(&g_heap, 0);
  CHECK(block != NULL && usable_size(&g_heap, block) == 8U && resize(&g_heap, block, 0));
  CHECK(usable_size(&g_heap, block) == 8U);
}

#include "adversary.h"

// Four levels of nodes of four, and two and three of eight.
#if COFFER_RT_RADIX_LOG2 == 2
static void explore_all(bool is_long) {
  for (unsigned units = 1; units <= (is_long ? 16U : 13U); ++units) {
    explore(units, MAX_BLOCKS, 0, false);
  }
  for (unsigned units = 1; units <= (is_long ? 13U : 9U); ++units) {
    explore(units, MAX_BLOCKS, 0, true);
  }
  explore(16, 4, 0, false);
  explore(16, 2, 0, true);
  explore(21, 3, 0, false);
  explore(32, 2, 0, false);
  explore(32, MAX_BLOCKS, 3, false);  // blocks of 8 units and more
  explore(64, MAX_BLOCKS, 4, false);
  explore(64, 1, 0, false);
  explore(64, 1, 0, true);
  if (is_long) {
    explore(21, 5, 0, false);
    explore(21, 3, 0, true);
    explore(32, 4, 0, false);
    explore(64, 2, 0, false);
  }
}
#else
static void explore_all(bool is_long) {
  for (unsigned units = 7; units <= (is_long ? 13U : 10U); ++units) {
    explore(units, MAX_BLOCKS, 0, true);
  }
  explore(24, 2, 0, true);
  explore(64, 1, 0, true);
}
#endif

static void check_sizes(bool sums, bool is_long) {
  g_run.sums = sums;
  for (unsigned live = 2; live <= (is_long ? 8U : 6U); ++live) {
    check_size(live, 1);
  }
  for (unsigned live = 4; live <= (is_long ? 7U : 6U); ++live) {
    check_size(live, 2);
  }
}

int main(int argc, char** argv) {
  const bool is_long = argc > 1 && argv[1][0] == 'l';
  explore_all(is_long);
  check_ends();
  check_sizes(false, is_long);
  check_sizes(true, is_long);
  return 0;
}
