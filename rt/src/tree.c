// SPDX-License-Identifier: MIT
// coffer-rt proper: the lowest address first, on a tree of bitmaps (heap.h has its invariants, docs/design/rt.md the
// proofs). Free memory is never cut or joined by itself: a block is free as soon as its bits are, and what is free
// together can be taken together.
#include "heap.h"

// The two bounded calls are to be one function each: what they call is put in place.
#ifndef RT_INLINE
#define RT_INLINE static inline __attribute__((always_inline))
#endif
// And what would keep registers from a path that does not need it stands apart.
#define RT_APART static __attribute__((noinline))

// How much memory a heap of so many units needs beside them. Levels are added till one node holds all cells and has
// room for one more, so that even the whole heap is a run of cells.
size_t coffer_rt_tree_words(size_t units) {
  size_t words = 0;
  size_t nodes = units;
  size_t cells = 0;
  unsigned level = 0;
  do {
    cells = nodes;
    nodes = (cells + RT_RADIX - 1U) >> RT_RADIX_LOG2;
    words += nodes * rt_stride(level);
    ++level;
  } while (cells >= RT_RADIX);
  return words;
}

// The largest order of which the node has a free run; -1 if nothing is free.
RT_INLINE int node_order(const rt_word* f, unsigned level) {
  const unsigned cell_order = level * RT_RADIX_LOG2;
  int order = -1;
  if (f[0] != 0U) {
    order = (int)(cell_order + rt_largest_run(f[0]));
  } else if (level > 0U) {
    const rt_word usable = f[-2];
    unsigned j = 1;
    while (j <= cell_order && (f[j] & usable) == 0U) {
      RT_LOOP(own);
      ++j;
    }
    order = (int)cell_order - (int)j;
  } else {
    // Nothing is free: -1.
  }
  return order;
}

// A node with all its cells free, but for those beyond the end.
static void node_init(struct coffer_rt* heap, unsigned level, size_t node) {
  const struct rt_level* where = &heap->u.tree.level[level];
  rt_word* f = rt_node(heap, level, node);
  const size_t first = node << RT_RADIX_LOG2;
  const rt_word present = where->cells - first >= RT_RADIX ? RT_FULL : (((rt_word)1 << (where->cells - first)) - 1U);
  const rt_word beyond = RT_FULL & ~present;
  f[-1] = beyond & (beyond - 1U);  // as of a block of its own: the last block's cells end before it
  f[0] = present;
  if (level > 0U) {
    const unsigned cell_order = level * RT_RADIX_LOG2;
    f[-2] = present;
    for (unsigned j = 1; j <= cell_order; ++j) {
      f[j] = present;
    }
    f[cell_order + 1U] = RT_FULL;
    // Below the last cell something may be beyond the end.
    if (node + 1U == where->nodes) {
      const rt_word bit = (rt_word)1 << ((where->cells - 1U) & (RT_RADIX - 1U));
      const int order = node_order(rt_node(heap, level - 1U, where->cells - 1U), level - 1U);
      for (int k = (int)cell_order; k > order; --k) {
        f[(int)cell_order - k] &= ~bit;
      }
    }
  }
}

void coffer_rt_tree_init(struct coffer_rt* heap, rt_word* words) {
  struct rt_tree* tree = &heap->u.tree;
  size_t nodes = heap->bytes >> heap->min_log2;
  unsigned level = 0;
  struct rt_level* where = NULL;
  do {
    where = &tree->level[level];
    where->cells = nodes;
    nodes = (where->cells + RT_RADIX - 1U) >> RT_RADIX_LOG2;
    where->nodes = nodes;
    where->first = words + rt_before(level);
    words += where->nodes * rt_stride(level);
    for (size_t node = 0; node < nodes; ++node) {
      node_init(heap, level, node);
    }
    ++level;
  } while (where->cells >= RT_RADIX);
  tree->top = level - 1U;
}

// The smallest order with 2^order * unit >= size; 0 for 0.
RT_INLINE unsigned order_of(const struct coffer_rt* heap, size_t size) {
  return rt_bits((size - (size != 0U ? 1U : 0U)) >> heap->min_log2);
}

// With sums, a block of order k has as many cells of level (k - 1) / RT_RADIX_LOG2 as it needs: over half of those of
// 2^k units, since a smaller order would do otherwise.
static void request_sum(const struct coffer_rt* heap, unsigned order, size_t size, struct rt_request* request) {
  const unsigned level = RT_LEVEL_OF(order - 1U);
  const unsigned cell_log2 = (level * RT_RADIX_LOG2) + heap->min_log2;
  const unsigned cells = (unsigned)((size - 1U) >> cell_log2) + 1U;
  if (cells < RT_RADIX) {
    request->level = level;
    request->run = order - (level * RT_RADIX_LOG2);
    request->cells = cells;
  }
}

// What a request of any alignment becomes; false if it asks for more than any region can have.
bool coffer_rt_tree_request(const struct coffer_rt* heap, size_t alignment, size_t size, struct rt_request* request) {
  const size_t wanted = size == 0U ? 1U : size;
  const size_t larger = alignment > wanted ? alignment : wanted;
  if (larger > PTRDIFF_MAX) {
    return false;
  }
  const unsigned order = order_of(heap, larger);
  request->level = RT_LEVEL_OF(order);
  request->run = order - (request->level * RT_RADIX_LOG2);
  request->cells = 1U << request->run;
  if (heap->sums && order > 0U && larger == wanted) {
    request_sum(heap, order, wanted, request);
  }
  return true;
}

RT_APART unsigned largest_run_apart(rt_word free_units) { return rt_largest_run(free_units); }

// The node's largest free run has become smaller: it is `order` now, -1 if there is none. Clears the bits that are no
// longer true in the nodes above.
RT_INLINE void lower_above(struct coffer_rt* heap, unsigned level, size_t node, int order) {
  const unsigned top = heap->u.tree.top;
  const struct rt_level* where = &heap->u.tree.level[level];
  while (level < top) {
    RT_LOOP(lower_levels);
    ++level;
    ++where;
    const rt_word bit = (rt_word)1 << (node & (RT_RADIX - 1U));
    node >>= RT_RADIX_LOG2;
    rt_word* f = where->first + (node * rt_stride_above(level));
    const int cell_order = (int)(level * RT_RADIX_LOG2);
    const rt_word usable = f[-2];
    // From the first order that is gone, upwards, while the bit is set. A cell that lost a run was not live, so its
    // bit in f[-1], behind the last of these words, is clear.
    rt_word* word = f + (cell_order - order - 1);
    if ((*word & bit) == 0U) {
      return;
    }
    rt_word rest = 0;
    do {
      RT_LOOP(lower);
      const rt_word changed = *word ^ bit;
      *word = changed;
      rest = changed & usable;
      --word;
    } while (rest != 0U && (*word & bit) != 0U);
    // If no other cell has a run of this order, none has one of the higher orders, and the node's largest is below.
    order = cell_order - (int)(word - f) - (rest != 0U ? 1 : 2);
    while ((*word & bit) != 0U) {
      RT_LOOP(lower);
      *word ^= bit;
      --word;
    }
    if (word < f && f[0] != 0U) {
      RT_LOOP(whole);
      order = cell_order + (int)largest_run_apart(f[0]);
    } else if (rest != 0U) {
      return;  // the node's largest run is in another cell
    } else {
      // The order found above.
    }
  }
}

// The node has free cells that it had not: its largest free run may be larger. Sets the bits that are true now in the
// nodes above.
RT_INLINE void raise_above(struct coffer_rt* heap, unsigned level, size_t node, rt_word free_cells) {
  const unsigned top = heap->u.tree.top;
  const struct rt_level* where = &heap->u.tree.level[level];
  unsigned cell_order = level * RT_RADIX_LOG2;
  unsigned order = cell_order + rt_largest_run(free_cells);
  while (level < top) {
    RT_LOOP(raise_levels);
    ++level;
    ++where;
    cell_order += RT_RADIX_LOG2;
    const rt_word bit = (rt_word)1 << (node & (RT_RADIX - 1U));
    node >>= RT_RADIX_LOG2;
    rt_word* f = where->first + (node * rt_stride_above(level));
    rt_word* word = f + (cell_order - order);
    const rt_word old = *word;
    if ((old & bit) != 0U) {
      return;
    }
    *word = old | bit;
    // And the orders below, till the bit is set; behind the last stands a word of ones.
    ++word;
    while ((*word & bit) == 0U) {
      RT_LOOP(raise);
      *word |= bit;
      ++word;
    }
    if (order == cell_order) {
      RT_LOOP(joined);
      order += rt_largest_run(f[0]);
    } else if ((old & f[-2]) != 0U) {
      return;  // another cell has had such a run
    } else {
      // The node's largest run is larger now.
    }
  }
}

// Makes `mask` of a node's cells a live block.
RT_INLINE void occupy(struct coffer_rt* heap, unsigned level, size_t node, rt_word mask) {
  rt_word* f = rt_node(heap, level, node);
  f[-1] |= mask & (mask - 1U);
  f[0] ^= mask;
  if (level > 0U) {
    f[-2] ^= mask;
  }
  lower_above(heap, level, node, node_order(f, level));
}

RT_INLINE void* take(struct coffer_rt* heap, unsigned target, unsigned run, unsigned cells) {
  unsigned level = heap->u.tree.top;
  if (target > level) {
    return NULL;
  }
  const struct rt_level* where = &heap->u.tree.level[level];
  const rt_word* f = where->first;
  const unsigned order = (target * RT_RADIX_LOG2) + run;
  size_t node = 0;
  while (level > target) {
    RT_LOOP(descend);
    const rt_word having = f[(level * RT_RADIX_LOG2) - order] & f[-2];
    if (having == 0U) {
      return NULL;  // at the top only: below, the cell's bit has promised a run
    }
    node = (node << RT_RADIX_LOG2) + rt_lowest(having);
    --level;
    --where;
    f = where->first + (node * rt_stride(level));
  }
  const rt_word runs = rt_runs(f[0], run);
  if (runs == 0U) {
    return NULL;  // at the top only
  }
  const unsigned cell = rt_lowest(runs);
  occupy(heap, level, node, ((((rt_word)1 << (cells - 1U)) << 1U) - 1U) << cell);
  return heap->base + (((node << RT_RADIX_LOG2) + cell) << ((target * RT_RADIX_LOG2) + heap->min_log2));
}

void* coffer_rt_tree_take_request(struct coffer_rt* heap, const struct rt_request* request) {
  return take(heap, request->level, request->run, request->cells);
}

RT_APART void* take_sum(struct coffer_rt* heap, size_t size) {
  struct rt_request request;
  return coffer_rt_tree_request(heap, 1, size, &request) ? coffer_rt_tree_take_request(heap, &request) : NULL;
}

void* coffer_rt_tree_take(struct coffer_rt* heap, size_t size) {
  if (heap->sums) {
    return take_sum(heap, size);
  }
  // No size is too large for this: an order that no tree has is refused by its level.
  const unsigned order = order_of(heap, size);
  const unsigned level = RT_LEVEL_OF(order);
  const unsigned run = order - (level * RT_RADIX_LOG2);
  return take(heap, level, run, 1U << run);
}

// A live block: where it is, and its cells.
struct place {
  unsigned level;
  size_t node;
  rt_word* f;
  rt_word mask;
};

// Why an address of the region is no live block: it is inside one, inside a unit, or free.
RT_APART enum coffer_rt_error blame(const struct coffer_rt* heap, const unsigned char* block) {
  const size_t offset = (size_t)(block - heap->base);
  size_t cell = offset >> heap->min_log2;
  if ((cell << heap->min_log2) != offset) {
    return COFFER_RT_BAD;
  }
  unsigned level = 0;
  while (rt_node(heap, level, cell >> RT_RADIX_LOG2)[0] == RT_FULL) {
    RT_LOOP(blame);
    cell >>= RT_RADIX_LOG2;
    ++level;
  }
  const rt_word* f = rt_node(heap, level, cell >> RT_RADIX_LOG2);
  return ((f[0] >> (cell & (RT_RADIX - 1U))) & 1U) != 0U ? COFFER_RT_DOUBLE : COFFER_RT_BAD;
}

// Finds the live block that starts at an address of the region; false if there is none.
RT_INLINE bool find(const struct coffer_rt* heap, const unsigned char* block, struct place* place) {
  const size_t offset = (size_t)(block - heap->base);
  const size_t unit = offset >> heap->min_log2;
  if ((unit << heap->min_log2) != offset) {
    return false;
  }
  const struct rt_level* where = heap->u.tree.level;
  unsigned level = 0;
  unsigned cell = (unsigned)(unit & (RT_RADIX - 1U));
  size_t node = unit >> RT_RADIX_LOG2;
  rt_word* f = where->first + (node * rt_stride(0));
  // A node that is all free has no live block: it belongs to a free or live cell above it, at whose start we must be.
  // The top node is never all free, for it has fewer cells than fit in.
  while (f[0] == RT_FULL) {
    RT_LOOP(climb);
    if (cell != 0U) {
      return false;
    }
    ++level;
    ++where;
    cell = (unsigned)(node & (RT_RADIX - 1U));
    node >>= RT_RADIX_LOG2;
    f = where->first + (node * rt_stride_above(level));
  }
  if ((((f[0] | f[-1]) >> cell) & 1U) != 0U) {
    return false;
  }
  const rt_word inside = (f[-1] >> cell) >> 1U;
  place->level = level;
  place->node = node;
  place->f = f;
  place->mask = (inside ^ (inside + 1U)) << cell;
  return true;
}

RT_INLINE void vacate(struct coffer_rt* heap, const struct place* place, rt_word mask) {
  rt_word* f = place->f;
  const rt_word free_cells = f[0] | mask;
  f[-1] &= ~mask;
  f[0] = free_cells;
  if (place->level > 0U) {
    f[-2] |= mask;
  }
  raise_above(heap, place->level, place->node, free_cells);
}

enum coffer_rt_error coffer_rt_tree_free(struct coffer_rt* heap, const unsigned char* block) {
  struct place place;
  if (!find(heap, block, &place)) {
    return blame(heap, block);
  }
  vacate(heap, &place, place.mask);
  return COFFER_RT_OK;
}

// Gives a live block another size where it stands, if the memory behind it and its alignment allow it. (The
// block is freed for the look: its contents are outside of the heap's state.)
bool coffer_rt_tree_resize(struct coffer_rt* heap, const unsigned char* block, const struct rt_request* request) {
  struct place place;
  if (!find(heap, block, &place) || request->level > heap->u.tree.top) {
    return false;
  }
  const rt_word old = place.mask;
  vacate(heap, &place, old);
  const unsigned cell_log2 = (request->level * RT_RADIX_LOG2) + heap->min_log2;
  const size_t offset = (size_t)(block - heap->base);
  const size_t index = offset >> cell_log2;
  const unsigned cell = (unsigned)(index & (RT_RADIX - 1U));
  const rt_word mask = ((((rt_word)1 << (request->cells - 1U)) << 1U) - 1U) << cell;
  const bool is_aligned = (offset & (((size_t)1 << (cell_log2 + request->run)) - 1U)) == 0U;
  if (is_aligned && (rt_node(heap, request->level, index >> RT_RADIX_LOG2)[0] & mask) == mask) {
    occupy(heap, request->level, index >> RT_RADIX_LOG2, mask);
    return true;
  }
  occupy(heap, place.level, place.node, old);
  return false;
}

size_t coffer_rt_tree_usable_size(const struct coffer_rt* heap, const unsigned char* block) {
  struct place place;
  size_t bytes = 0;
  if (find(heap, block, &place)) {
    bytes = (size_t)(rt_highest((size_t)place.mask) - rt_lowest(place.mask) + 1U)
            << ((place.level * RT_RADIX_LOG2) + heap->min_log2);
  }
  return bytes;
}

size_t coffer_rt_tree_largest_free(const struct coffer_rt* heap) {
  const int order = node_order(heap->u.tree.level[heap->u.tree.top].first, heap->u.tree.top);
  return order < 0 ? 0U : (size_t)1 << ((unsigned)order + heap->min_log2);
}
