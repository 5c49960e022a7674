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
    if (level != heap->u.nodes.level && level[-1].nodes[cell].cells != RT_FULL) {
      --level;
      cell <<= RT_RADIX_LOG2;
      continue;
    }
    const struct rt_listed* node = rt_node_with(level, cell);
    const unsigned at = (unsigned)(cell & (RT_RADIX - 1U));
    const bool is_free = ((node->cells >> at) & 1U) != 0U;
    const rt_word inside = (node->inside >> at) >> 1U;
    const unsigned cells = is_free ? 1U << free_run(node->cells, at) : rt_lowest(inside + 1U) + 1U;
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
  bool is_good = true;
  for (unsigned at = 0; at < RT_RADIX; ++at) {
    const size_t cell = (index << RT_RADIX_LOG2) + at;
    const bool is_free = ((node->cells >> at) & 1U) != 0U;
    const bool is_inside = ((node->inside >> at) & 1U) != 0U;
    if (cell >= level->cells) {
      is_good = is_good && !is_free && is_inside == (cell > level->cells);
    } else if (level != heap->u.nodes.level) {
      // A free or live cell's node is all free; that of a split cell is not, and a split cell is no part of a block.
      const bool is_whole = level[-1].nodes[cell].cells == RT_FULL;
      is_good = is_good && (is_whole || (!is_free && !is_inside));
    } else {
      // Any unit is free or live.
    }
    // A block begins in its own node.
    is_good = is_good && !(is_inside && (is_free || at == 0U));
  }
  return is_good;
}

// The node of the level that a link names, or the list's head; NULL if it names neither.
static const struct rt_listed* linked(const struct rt_lists_level* level, const struct rt_listed* link,
                                      const struct rt_listed* head) {
  const size_t nodes = (level->cells + RT_RADIX - 1U) >> RT_RADIX_LOG2;
  const uintptr_t distance = (uintptr_t)link - (uintptr_t)level->nodes;
  const bool is_node = distance % sizeof(*link) == 0U && distance / sizeof(*link) < nodes;
  return link == head || is_node ? link : NULL;
}

// The nodes of a list; more than there are if the list is damaged.
static size_t count(const struct rt_lists_level* level, unsigned order) {
  const size_t most = level->cells + 1U;
  const struct rt_listed* head = &level->head[order];
  const struct rt_listed* before = head;
  size_t nodes = 0;
  do {
    const struct rt_listed* node = linked(level, before->next, head);
    if (node == NULL || node->previous != before ||
        (node != head && (node->cells == 0U || node->cells == RT_FULL || largest_run(node->cells) != order))) {
      return most;
    }
    nodes += node != head ? 1U : 0U;
    before = node;
    // Each node's `previous` is the one that led here, so the first node cannot come again but from the head.
  } while (before != head);
  const bool is_told = ((level->not_empty >> order) & 1U) != 0U;
  return is_told == (nodes != 0U) && head->cells == (rt_word)1 << order ? nodes : most;
}

static bool is_level_good(const struct coffer_rt* heap, const struct rt_lists_level* level) {
  const size_t nodes = (level->cells + RT_RADIX - 1U) >> RT_RADIX_LOG2;
  bool is_good = (level->not_empty >> RT_RADIX_LOG2) == 0U;
  size_t expected = 0;
  size_t listed = 0;
  for (size_t node = 0; node < nodes; ++node) {
    const rt_word cells = level->nodes[node].cells;
    expected += level != heap->u.nodes.top && cells != 0U && cells != RT_FULL ? 1U : 0U;
    is_good = is_node_good(heap, level, node) && is_good;
  }
  for (unsigned order = 0; order < RT_RADIX_LOG2; ++order) {
    listed += count(level, order);
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
