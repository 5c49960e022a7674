// coffer-rt with lists: free cells are bits of words as in the tree, but a node stands on a list, that of its largest
// free run. So no call looks at more nodes than it cuts or joins. heap.h has the invariants, docs/design/rt.md the
// proofs; the calls' usual paths are in lists.h.
#include "lists.h"

_Static_assert(sizeof(struct rt_lists_level) % sizeof(rt_word) == 0U, "the levels stand before the nodes");

#define RT_RUN(order)                                                                      \
  {(rt_word)(RT_FULL & ~(RT_ALIGNED(order) << ((1U << (order)) - 1U))), RT_ALIGNED(order), \
   (rt_word)(((((rt_word)1 << ((1U << (order)) - 1U)) - 1U) << 1U) | 1U), (1U << (order)) - 1U}
#define RT_STEP ((uint8_t)sizeof(struct rt_listed))

const struct rt_lists_tables coffer_rt_lists_tables = {
    .runs =
        {
            RT_RUN(0),
            RT_RUN(1),
#if COFFER_RT_RADIX_LOG2 >= 5
            RT_RUN(2),
            RT_RUN(3),
            RT_RUN(4),
#endif
#if COFFER_RT_RADIX_LOG2 >= 6
            RT_RUN(5),
#endif
        },
    .pairs = RT_ALIGNED(1),
    .fours = RT_ALIGNED(2),
#if !RT_HAS_SCAN
    .de_bruijn = RT_DE_BRUIJN,
    .index = RT_INDEX_TABLE,
#endif
    .lowest_offset =
        {
            0,           0, RT_STEP, 0,
#if COFFER_RT_RADIX_LOG2 >= 5
            2 * RT_STEP, 0, RT_STEP, 0, 3 * RT_STEP, 0, RT_STEP, 0, 2 * RT_STEP, 0, RT_STEP, 0,
            4 * RT_STEP, 0, RT_STEP, 0, 2 * RT_STEP, 0, RT_STEP, 0, 3 * RT_STEP, 0, RT_STEP, 0,
            2 * RT_STEP, 0, RT_STEP, 0,
#endif
#if COFFER_RT_RADIX_LOG2 >= 6
            5 * RT_STEP, 0, RT_STEP, 0, 2 * RT_STEP, 0, RT_STEP, 0, 3 * RT_STEP, 0, RT_STEP, 0,
            2 * RT_STEP, 0, RT_STEP, 0, 4 * RT_STEP, 0, RT_STEP, 0, 2 * RT_STEP, 0, RT_STEP, 0,
            3 * RT_STEP, 0, RT_STEP, 0, 2 * RT_STEP, 0, RT_STEP, 0,
#endif
        },
    .order =
        {
            0, 1,
#if COFFER_RT_RADIX_LOG2 >= 5
            2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4,
#endif
#if COFFER_RT_RADIX_LOG2 >= 6
            5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5,
#endif
        },
#if COFFER_RT_RADIX_LOG2 == 5
    .class_offset =
        {
            2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP,
            2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP,
            2 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP,
            2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP,
            2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP,
            2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP,
            2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP,
            3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP,
            3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP,
            3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP,
            2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP,
            2 * RT_STEP, 3 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP,
            2 * RT_STEP, 2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP,
            3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP,
            2 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP,
            3 * RT_STEP, 3 * RT_STEP, 3 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP, 4 * RT_STEP,
        },
#endif
};

// A block of the level's cells, where no node of the level has room: a cell of a level above is cut, down to here.
void* coffer_rt_lists_take_above(struct coffer_rt* heap, struct rt_lists_level* level, size_t order_offset) {
  struct rt_lists_level* const top = heap->u.nodes.top;
  const struct rt_lists_tables* tables = heap->u.nodes.tables;
  const struct rt_run* wanted = rt_run_at(tables, order_offset);
  if (level == top) {
    struct rt_listed* node = top->nodes;
    const rt_word cells = node->cells;
    const rt_word first = rt_lowest_bit(rt_ends_of_runs(cells, wanted)) >> wanted->others;
    if (first == 0U) {
      return NULL;
    }
    const rt_word mask = first * wanted->ones;
    node->cells = cells ^ mask;
    node->inside |= mask ^ first;
    return rt_cell_address(top, RT_FIRST_CELL(top, node) + RT_INDEX(tables, first));
  }
  struct rt_lists_level* from = level + 1;
  rt_word not_empty = from->not_empty;
  while (not_empty == 0U && from != top) {
    RT_LOOP(up);
    ++from;
    not_empty = from->not_empty;
  }
  struct rt_listed* node = from->nodes;
  rt_word first = 0;
  if (not_empty == 0U) {
    const rt_word cells = node->cells;
    first = rt_lowest_bit(cells);
    if (first == 0U) {
      return NULL;
    }
    node->cells = cells ^ first;
  } else {
    RT_LOOP(listed);
    const size_t offset = tables->lowest_offset[not_empty];
    const struct rt_run* run = rt_run_at(tables, offset);
    struct rt_listed* head = rt_head(from, offset);
    node = head->next;
    const rt_word cells = node->cells;
    const rt_word ends = rt_ends_of_runs(cells, run);
    const rt_word end = rt_lowest_bit(ends);
    first = end >> run->others;
    node->cells = cells ^ first;
    if (ends == end) {
      not_empty = rt_unlink(not_empty, head, node->next);
      if (offset != 0U) {
        not_empty = rt_link(head - 1, not_empty, node);
      }
      from->not_empty = not_empty;
    }
  }
  node = rt_child(from, RT_FIRST_CELL(from, node) + RT_INDEX(tables, first));
  --from;
  while (from != level) {
    RT_LOOP(cut);
    node->cells = RT_FULL ^ 1U;
    rt_link_alone(&from->head[RT_MOST_CLASS], node);
    from->not_empty = (rt_word)1 << RT_MOST_CLASS;
    node = rt_child(from, RT_FIRST_CELL(from, node));
    --from;
  }
  const rt_word ones = wanted->ones;
  node->cells = ~ones & RT_FULL;
  node->inside = ones - 1U;
  rt_link_alone(&level->head[RT_MOST_CLASS], node);
  level->not_empty |= (rt_word)1 << RT_MOST_CLASS;
  return rt_cell_address(level, RT_FIRST_CELL(level, node));
}

// As many levels as the tree has: the top node holds all cells and has room for one more.
static unsigned level_count(size_t units) {
  unsigned levels = 1;
  for (size_t cells = units; cells >= RT_RADIX; cells = (cells + RT_RADIX - 1U) >> RT_RADIX_LOG2) {
    ++levels;
  }
  return levels;
}

size_t coffer_rt_lists_words(size_t units) {
  size_t cells = units;
  size_t nodes = 0;
  const unsigned levels = level_count(units);
  for (unsigned level = 0; level < levels; ++level) {
    cells = (cells + RT_RADIX - 1U) >> RT_RADIX_LOG2;
    nodes += cells;
  }
  return ((levels * sizeof(struct rt_lists_level)) + (nodes * sizeof(struct rt_listed))) / sizeof(rt_word);
}

// A node leaves its list, if it is on one, and joins that of the cells it has now.
static void relist(struct coffer_rt* heap, struct rt_lists_level* level, struct rt_listed* node, rt_word cells) {
  const rt_word old = node->cells;
  node->cells = cells;
  if (level != heap->u.nodes.top) {
    rt_word not_empty = level->not_empty;
    if (old != 0U && old != RT_FULL) {
      not_empty = rt_unlink(not_empty, node->previous, node->next);
    }
    if (cells != 0U && cells != RT_FULL) {
      not_empty = rt_link(rt_head(level, rt_class_offset(heap->u.nodes.tables, cells)), not_empty, node);
    }
    level->not_empty = not_empty;
  }
}

static void init_level(struct coffer_rt* heap, struct rt_lists_level* level) {
  level->not_empty = 0;
  for (unsigned order = 0; order < RT_RADIX_LOG2; ++order) {
    struct rt_listed* head = &level->head[order];
    *head = (struct rt_listed){(rt_word)1 << order, 0, head, head};
  }
  const size_t nodes = (level->cells + RT_RADIX - 1U) >> RT_RADIX_LOG2;
  for (size_t i = 0; i < nodes; ++i) {
    const size_t present = level->cells - (i << RT_RADIX_LOG2);
    rt_word cells = present >= RT_RADIX ? RT_FULL : (((rt_word)1 << present) - 1U);
    const rt_word beyond = RT_FULL & ~cells;
    struct rt_listed* node = &level->nodes[i];
    // Cells beyond the end look live, as one block; so the last block's cells end before it.
    *node = (struct rt_listed){0, beyond & (beyond - 1U), NULL, NULL};
    if (i + 1U == nodes && level != heap->u.nodes.level &&
        rt_node_with(level - 1, (level[-1].cells - 1U))->cells != RT_FULL) {
      cells &= ~((rt_word)1 << ((level->cells - 1U) & (RT_RADIX - 1U)));  // not all of the last cell is there
    }
    relist(heap, level, node, cells);
  }
}

static void init(struct coffer_rt* heap) {
  struct rt_nodes* all = &heap->u.nodes;
  size_t cells = heap->bytes >> heap->min_log2;
  const unsigned levels = level_count(cells);
  all->top = all->level + (levels - 1U);
  all->tables = &coffer_rt_lists_tables;
  const unsigned most_log2 = (levels * RT_RADIX_LOG2) - 1U + heap->min_log2;
  all->limit = most_log2 < RT_WORD_BITS - 1U ? (size_t)1 << most_log2 : (size_t)PTRDIFF_MAX;
  struct rt_listed* nodes = (struct rt_listed*)(void*)(all->level + levels);
  unsigned log2 = heap->min_log2;
  for (struct rt_lists_level* level = all->level; level <= all->top; ++level) {
    level->nodes = nodes;
    level->cells = cells;
    level->cell_log2 = log2;
    level->tables = level == all->top ? NULL : all->tables;
    level->origin = (uintptr_t)heap->base - (RT_FIRST_CELL(level, nodes) << log2);
    // The level below has been laid out, but for the lowest, which has none.
    const struct rt_listed* below = level == all->level ? nodes : level[-1].nodes;
    level->children = (uintptr_t)below - (RT_FIRST_CELL(level, nodes) * sizeof(struct rt_listed));
    init_level(heap, level);
    cells = (cells + RT_RADIX - 1U) >> RT_RADIX_LOG2;
    nodes += cells;
    log2 += RT_RADIX_LOG2;
  }
}

static void* alloc(struct coffer_rt* heap, size_t size) {
  const size_t size_less_1 = size - (size != 0U ? 1U : 0U);
  return size_less_1 < heap->u.nodes.limit ? rt_lists_take(heap, size_less_1) : NULL;
}

// Why an offset is no live block: it is inside one, inside a unit, or free.
enum coffer_rt_error coffer_rt_lists_blame(const struct coffer_rt* heap, size_t offset) {
  const struct rt_lists_level* level = heap->u.nodes.level;
  size_t cell = offset >> heap->min_log2;
  if ((cell << heap->min_log2) != offset) {
    return COFFER_RT_BAD;
  }
  while (rt_node_with(level, cell)->cells == RT_FULL) {
    RT_LOOP(blame);
    cell >>= RT_RADIX_LOG2;
    ++level;
  }
  return ((rt_node_with(level, cell)->cells >> (cell & (RT_RADIX - 1U))) & 1U) != 0U ? COFFER_RT_DOUBLE : COFFER_RT_BAD;
}

static enum coffer_rt_error give_back(struct coffer_rt* heap, unsigned char* block) {
  const size_t offset = (size_t)(block - heap->base);
  struct rt_lists_place place;
  if (!rt_lists_find(heap, offset, &place)) {
    return coffer_rt_lists_blame(heap, offset);
  }
  rt_lists_vacate(&place);
  return COFFER_RT_OK;
}

static size_t usable_size(const struct coffer_rt* heap, const unsigned char* block) {
  struct rt_lists_place place;
  size_t bytes = 0;
  if (rt_lists_find(heap, (size_t)(block - heap->base), &place)) {
    bytes = (size_t)(rt_highest((size_t)place.mask) - rt_lowest(place.mask) + 1U) << place.level->cell_log2;
  }
  return bytes;
}

static size_t largest_free(const struct coffer_rt* heap) {
  const struct rt_lists_level* level = heap->u.nodes.top;
  size_t bytes = 0;
  if (level->nodes->cells != 0U) {
    bytes = (size_t)1 << (rt_largest_run(level->nodes->cells) + level->cell_log2);
  } else {
    while (level > heap->u.nodes.level && level->not_empty == 0U) {
      RT_LOOP(down);
      --level;
    }
    bytes = level->not_empty == 0U ? 0U : (size_t)1 << (rt_highest((size_t)level->not_empty) + level->cell_log2);
  }
  return bytes;
}

// A run of cells of one node: of which level, which cells, and as bits.
struct span {
  struct rt_lists_level* level;
  size_t cell;
  rt_word mask;
};

// What stands for the span's cells: themselves, or the free or live cell above that they are part of.
static struct span standing(const struct span* span) {
  struct span found = *span;
  while (rt_node_with(found.level, found.cell)->cells == RT_FULL) {
    RT_LOOP(stand);
    found.cell >>= RT_RADIX_LOG2;
    ++found.level;
    found.mask = (rt_word)1 << (found.cell & (RT_RADIX - 1U));
  }
  return found;
}

// Makes free cells a live block, wherever they are.
static void make_live(struct coffer_rt* heap, const struct span* span) {
  const struct span found = standing(span);
  struct rt_listed* node = rt_node_with(found.level, found.cell);
  relist(heap, found.level, node, node->cells ^ found.mask);
  struct rt_lists_level* level = found.level;
  while (level != span->level) {
    RT_LOOP(occupy);
    --level;
    const size_t cell = span->cell >> ((unsigned)(level - span->level) * RT_RADIX_LOG2);
    const rt_word mask = level == span->level ? span->mask : (rt_word)1 << (cell & (RT_RADIX - 1U));
    node = rt_node_with(level, cell);
    relist(heap, level, node, RT_FULL ^ mask);
  }
  node->inside |= span->mask & (span->mask - 1U);
}

// Gives a live block another size where it stands, if the memory behind it and its alignment allow it. (The block is
// freed for the look: its contents are outside of the heap's state.)
static bool resize(struct coffer_rt* heap, unsigned char* block, size_t size) {
  const size_t offset = (size_t)(block - heap->base);
  const size_t size_less_1 = size - (size != 0U ? 1U : 0U);
  struct rt_lists_place place;
  if (!rt_lists_find(heap, offset, &place) || size_less_1 >= heap->u.nodes.limit) {
    return false;
  }
  const unsigned order = rt_bits(size_less_1 >> heap->min_log2);
  const unsigned above = RT_LEVEL_OF(order);
  const unsigned run = order - (above * RT_RADIX_LOG2);
  rt_lists_vacate(&place);
  struct span span = {heap->u.nodes.level + above, offset >> (heap->min_log2 + (above * RT_RADIX_LOG2)), 0};
  span.mask = coffer_rt_lists_tables.runs[run].ones << (span.cell & (RT_RADIX - 1U));
  const struct span found = standing(&span);
  const bool is_aligned = (offset & (((size_t)1 << (order + heap->min_log2)) - 1U)) == 0U;
  const bool fits = is_aligned && (rt_node_with(found.level, found.cell)->cells & found.mask) == found.mask;
  if (!fits) {
    span = (struct span){place.level, place.cell, place.mask};
  }
  make_live(heap, &span);
  return fits;
}

const struct rt_policy coffer_rt_lists = {
    .words = coffer_rt_lists_words,
    .init = init,
    .alloc = alloc,
    .give_back = give_back,
    .usable_size = usable_size,
    .largest_free = largest_free,
    .resize = resize,
    .walk = coffer_rt_lists_walk,
    .check = coffer_rt_lists_check,
};
