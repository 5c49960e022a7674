// SPDX-License-Identifier: MIT
// Looking at the whole tree: coffer_rt_walk and coffer_rt_check. Neither is bounded by the levels.
#include "heap.h"

struct visitor {
  int (*visit)(void* context, void* block, size_t bytes, int is_live);
  void* context;
};

static unsigned char* cell_address(const struct coffer_rt* heap, unsigned level, size_t cell) {
  return heap->base + (cell << ((level * RT_RADIX_LOG2) + heap->min_log2));
}

// The largest aligned run of free cells at `cell`, of a node that is not all free.
static unsigned free_run(rt_word free_cells, unsigned cell) {
  unsigned run = 0;
  while ((cell & ((2U << run) - 1U)) == 0U && ((rt_runs(free_cells, run + 1U) >> cell) & 1U) != 0U) {
    ++run;
  }
  return run;
}

// Tells the block that starts at a cell which is not split, and returns its cells.
static unsigned tell(const struct coffer_rt* heap, unsigned level, size_t cell, const struct visitor* visitor,
                     int* result) {
  const rt_word* f = rt_node(heap, level, cell >> RT_RADIX_LOG2);
  const unsigned at = (unsigned)(cell & (RT_RADIX - 1U));
  const bool is_free = ((f[0] >> at) & 1U) != 0U;
  const rt_word inside = (f[-1] >> at) >> 1U;
  const unsigned cells = is_free ? 1U << free_run(f[0], at) : rt_lowest(inside + 1U) + 1U;
  *result = visitor->visit(visitor->context, cell_address(heap, level, cell),
                           (size_t)cells << ((level * RT_RADIX_LOG2) + heap->min_log2), is_free ? 0 : 1);
  return cells;
}

static bool is_split(const struct coffer_rt* heap, unsigned level, size_t cell) {
  return level > 0U && rt_node(heap, level - 1U, cell)[0] != RT_FULL;
}

int coffer_rt_tree_walk(struct coffer_rt* heap, int (*visit)(void* context, void* block, size_t bytes, int is_live),
                        void* context) {
  const struct visitor visitor = {visit, context};
  const struct rt_tree* tree = &heap->u.tree;
  unsigned level = tree->top;
  size_t cell = 0;
  int result = 0;
  while (result == 0 && cell < tree->level[level].cells) {
    if (is_split(heap, level, cell)) {
      --level;
      cell <<= RT_RADIX_LOG2;
      continue;
    }
    cell += tell(heap, level, cell, &visitor, &result);
    while (level < tree->top && ((cell & (RT_RADIX - 1U)) == 0U || cell == tree->level[level].cells)) {
      cell = ((cell - 1U) >> RT_RADIX_LOG2) + 1U;
      ++level;
    }
  }
  return result;
}

// The order of a node's largest run, found in another way than tree.c does: order by order.
static int order_of_node(const rt_word* f, unsigned level) {
  const int cell_order = (int)(level * RT_RADIX_LOG2);
  for (int run = (int)RT_RADIX_LOG2; run >= 0; --run) {
    for (unsigned at = 0; at < RT_RADIX; at += 1U << (unsigned)run) {
      const rt_word mask = ((((rt_word)1 << ((1U << (unsigned)run) - 1U)) << 1U) - 1U) << at;
      if ((f[0] & mask) == mask) {
        return cell_order + run;
      }
    }
  }
  for (int j = 1; level > 0U && j <= cell_order; ++j) {
    if ((f[j] & f[-2]) != 0U) {
      return cell_order - j;
    }
  }
  return -1;
}

// Whether a node's cells that are inside a block follow a live one of the node, and the cells beyond the end are one
// block, which begins there: a free of the last block must not give out what lies behind the heap.
static bool is_inside_good(const struct coffer_rt* heap, unsigned level, size_t node, const rt_word* f) {
  const size_t cells = heap->u.tree.level[level].cells - (node << RT_RADIX_LOG2);
  const rt_word beyond = cells < RT_RADIX ? RT_FULL & ~(((rt_word)1 << cells) - 1U) : 0U;
  const rt_word live = RT_FULL & ~(level == 0U ? f[0] : f[-2]);
  return (f[-1] & ~(live << 1U)) == 0U && (f[-1] & beyond) == (beyond & (beyond - 1U));
}

static bool is_cell_good(const struct coffer_rt* heap, unsigned level, size_t cell, const rt_word* f, unsigned at) {
  const rt_word bit = (rt_word)1 << at;
  const bool is_free = (f[0] & bit) != 0U;
  const bool is_inside = (f[-1] & bit) != 0U;
  const bool exists = cell < heap->u.tree.level[level].cells;
  bool is_good = !(is_free && is_inside);
  if (level == 0U) {
    return is_good && (exists || !is_free);
  }
  const bool is_live = (f[-2] & bit) == 0U;
  is_good = is_good && !(is_free && is_live) && (!is_inside || is_live);
  const unsigned cell_order = level * RT_RADIX_LOG2;
  if (!exists) {
    for (unsigned j = 0; j <= cell_order; ++j) {
      is_good = is_good && (f[j] & bit) == 0U;
    }
    return is_good && is_live;
  }
  const rt_word* below = rt_node(heap, level - 1U, cell);
  is_good = is_good && (below[0] == RT_FULL) == (is_free || is_live);
  const int order = order_of_node(below, level - 1U);
  for (unsigned j = 0; j <= cell_order; ++j) {
    // f[0] tells free from live; the other orders speak of the node alone.
    const bool has_run = (int)(cell_order - j) <= order && (j > 0U || !is_live);
    is_good = is_good && has_run == ((f[j] & bit) != 0U);
  }
  return is_good;
}

static bool is_node_good(const struct coffer_rt* heap, unsigned level, size_t node) {
  const rt_word* f = rt_node(heap, level, node);
  bool is_good = level == 0U || f[(level * RT_RADIX_LOG2) + 1U] == RT_FULL;
  for (unsigned at = 0; at < RT_RADIX; ++at) {
    is_good = is_good && is_cell_good(heap, level, (node << RT_RADIX_LOG2) + at, f, at);
  }
  return is_good && is_inside_good(heap, level, node, f);
}

enum coffer_rt_error coffer_rt_tree_check(const struct coffer_rt* heap) {
  const struct rt_tree* tree = &heap->u.tree;
  enum coffer_rt_error error = COFFER_RT_OK;
  for (unsigned level = 0; level <= tree->top; ++level) {
    for (size_t node = 0; node < tree->level[level].nodes; ++node) {
      if (!is_node_good(heap, level, node)) {
        error = COFFER_RT_CORRUPT;
      }
    }
  }
  return error;
}
