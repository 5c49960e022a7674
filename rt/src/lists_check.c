// SPDX-License-Identifier: MIT
// Looking at the whole of a heap with lists: coffer_rt_walk and coffer_rt_check. Neither is bounded by the levels.
#include "lists.h"

// The largest aligned run of free cells at `cell`, of a node that is not all free.
static unsigned free_run(rt_word free_cells, unsigned cell) {
  unsigned run = 0;
  while ((cell & ((2U << run) - 1U)) == 0U && ((rt_runs(free_cells, run + 1U) >> cell) & 1U) != 0U) {
    ++run;
  }
  return run;
}

int coffer_rt_lists_walk(struct coffer_rt* heap, int (*visit)(void* context, void* block, size_t bytes, int is_live),
                         void* context) {
  const struct rt_lists_level* level = heap->u.nodes.top;
  size_t cell = 0;
  int result = 0;
  while (result == 0 && cell < level->cells) {
    if (level != heap->u.nodes.level && level[-1].nodes[cell].used != 0U) {
      --level;
      cell <<= RT_RADIX_LOG2;
      continue;
    }
    const struct rt_listed* node = rt_node_with(level, cell);
    const unsigned at = (unsigned)(cell & (RT_RADIX - 1U));
    const rt_word free_cells = ~node->used & RT_FULL;
    const bool is_free = ((free_cells >> at) & 1U) != 0U;
    const unsigned cells = is_free ? 1U << free_run(free_cells, at) : rt_lowest((node->goes_on >> at) + 1U) + 1U;
    result =
        visit(context, heap->base + (cell << level->cell_log2), (size_t)cells << level->cell_log2, is_free ? 0 : 1);
    cell += cells;
    while (level != heap->u.nodes.top && ((cell & (RT_RADIX - 1U)) == 0U || cell == level->cells)) {
      cell = ((cell - 1U) >> RT_RADIX_LOG2) + 1U;
      ++level;
    }
  }
  return result;
}

// The order of a node's largest run, found in another way than lists.h does: order by order.
static unsigned largest_run(rt_word cells) {
  unsigned order = RT_RADIX_LOG2;
  while (order > 0U && rt_runs(cells, order) == 0U) {
    --order;
  }
  return order;
}

static bool is_node_good(const struct coffer_rt* heap, const struct rt_lists_level* level, size_t index) {
  const struct rt_listed* node = &level->nodes[index];
  // A block ends in its own node.
  bool is_good = ((node->goes_on >> (RT_RADIX - 1U)) & 1U) == 0U;
  for (unsigned at = 0; at < RT_RADIX; ++at) {
    const size_t cell = (index << RT_RADIX_LOG2) + at;
    const bool is_free = ((node->used >> at) & 1U) == 0U;
    const bool goes_on = ((node->goes_on >> at) & 1U) != 0U;
    const bool is_more = (((node->goes_on << 1U) >> at) & 1U) != 0U;  // the cell before it goes on
    if (cell >= level->cells) {
      is_good = is_good && !is_free && is_more == (cell > level->cells);
    } else if (level != heap->u.nodes.level) {
      // A free or live cell's node is all free; that of a split cell is not, and a split cell is no part of a block.
      const bool is_whole = level[-1].nodes[cell].used == 0U;
      is_good = is_good && (is_whole || (!is_free && !goes_on && !is_more));
    } else {
      // Any unit is free or live.
    }
    is_good = is_good && !(is_free && (goes_on || is_more));
  }
  return is_good;
}

// The node of the level that a link names, or NULL.
static const struct rt_listed* linked(const struct rt_lists_level* level, const struct rt_link* link) {
  const size_t nodes = (level->cells + RT_RADIX - 1U) >> RT_RADIX_LOG2;
  const uintptr_t distance = (uintptr_t)link - (uintptr_t)level->nodes;
  const bool is_node = distance % sizeof(struct rt_listed) == 0U && distance / sizeof(struct rt_listed) < nodes;
  return is_node ? (const struct rt_listed*)(const void*)link : NULL;
}

static bool is_head_good(const struct coffer_rt* heap, const struct rt_lists_level* level, unsigned order) {
  const struct rt_head* head = &level->head[order];
  const unsigned cells = 1U << order;
  bool is_good = head->others == cells - 1U && head->level == (level == heap->u.nodes.top ? NULL : level);
  for (unsigned at = 0; at < RT_WORD_BITS; ++at) {
    const bool is_in = at < RT_RADIX;
    const rt_word bit = (rt_word)1 << at;
    is_good = is_good && ((head->first & bit) != 0U) == (is_in && at % cells == 0U) &&
              ((head->but_last & bit) != 0U) == (is_in && (at + 1U) % cells != 0U) &&
              ((head->ones & bit) != 0U) == (at < cells);
  }
  return is_good;
}

// The nodes of a list; more than there are if the list is damaged.
static size_t count(const struct rt_lists_level* level, unsigned order) {
  const size_t most = level->cells + 1U;
  const struct rt_link* end = &(order == RT_MOST_CLASS ? level[1].head : &level->head[order + 1U])->link;
  const struct rt_link* before = &level->head[order].link;
  size_t nodes = 0;
  while (before->next != end) {
    const struct rt_listed* node = linked(level, before->next);
    // Each node's `previous` is the one that led here, so none can come twice but the first, from the head.
    if (node == NULL || node->link.previous != before || node->used == 0U || node->used == RT_FULL ||
        largest_run(~node->used & RT_FULL) != order) {
      return most;
    }
    ++nodes;
    before = &node->link;
  }
  return end->previous == before ? nodes : most;
}

static bool is_level_good(const struct coffer_rt* heap, const struct rt_lists_level* level) {
  const size_t nodes = (level->cells + RT_RADIX - 1U) >> RT_RADIX_LOG2;
  const bool is_top = level == heap->u.nodes.top;
  bool is_good = true;
  size_t expected = 0;
  size_t listed = 0;
  for (size_t i = 0; i < nodes; ++i) {
    const struct rt_listed* node = &level->nodes[i];
    if (is_top) {
      is_good = node->link.previous == &level->head[0].link;  // the only one
    } else if (node->used == RT_FULL) {
      is_good = is_good && node->link.next == &node->link && node->link.previous == &node->link;
    } else {
      expected += node->used != 0U ? 1U : 0U;
    }
    is_good = is_node_good(heap, level, i) && is_good;
  }
  for (unsigned order = 0; order < RT_RADIX_LOG2; ++order) {
    is_good = is_head_good(heap, level, order) && is_good;
    if (is_top) {
      is_good = is_good && level->head[order].link.next == &level->nodes->link;
    } else {
      listed += count(level, order);
    }
  }
  return is_good && listed == expected;
}

enum coffer_rt_error coffer_rt_lists_check(const struct coffer_rt* heap) {
  enum coffer_rt_error error = COFFER_RT_OK;
  for (const struct rt_lists_level* level = heap->u.nodes.level; level <= heap->u.nodes.top; ++level) {
    // A node that is part of a free or live cell stands for no cells: its own are as if free, and nothing else counts.
    if (!is_level_good(heap, level)) {
      error = COFFER_RT_CORRUPT;
    }
  }
  return error;
}
