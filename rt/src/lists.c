// SPDX-License-Identifier: MIT
// coffer-rt with lists: free cells are bits of words as in the tree, but a node stands on a list, that of its largest
// free run. So no call looks at more nodes than it cuts or joins. heap.h has the invariants, docs/design/rt.md the
// proofs; the calls' usual paths are in lists.h.
#include "lists.h"

_Static_assert(sizeof(struct rt_lists_level) % sizeof(rt_word) == 0U, "the levels stand before the nodes");

static const struct rt_lists_tables lists_tables = {
    .pairs = RT_ALIGNED(1),
#if !RT_HAS_SCAN
    .de_bruijn = RT_DE_BRUIJN,
    .index = RT_INDEX_TABLE,
#endif
    .order =
        {
            RT_HEAD(0), RT_HEAD(1),
#if COFFER_RT_RADIX_LOG2 >= 3
            RT_HEAD(2), RT_HEAD(2),
#endif
#if COFFER_RT_RADIX_LOG2 >= 5
            RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(4), RT_HEAD(4), RT_HEAD(4), RT_HEAD(4),
            RT_HEAD(4), RT_HEAD(4), RT_HEAD(4), RT_HEAD(4),
#endif
#if COFFER_RT_RADIX_LOG2 >= 6
            RT_HEAD(5), RT_HEAD(5), RT_HEAD(5), RT_HEAD(5), RT_HEAD(5), RT_HEAD(5), RT_HEAD(5), RT_HEAD(5),
            RT_HEAD(5), RT_HEAD(5), RT_HEAD(5), RT_HEAD(5), RT_HEAD(5), RT_HEAD(5), RT_HEAD(5), RT_HEAD(5),
#endif
        },
#if COFFER_RT_RADIX_LOG2 == 5
    .gather = 0x04020508U,
    .class_head =
        {
            RT_HEAD(4), RT_HEAD(2), RT_HEAD(4), RT_HEAD(2), RT_HEAD(4), RT_HEAD(4), RT_HEAD(4), RT_HEAD(3), RT_HEAD(4),
            RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(4), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3),
            RT_HEAD(2), RT_HEAD(2), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(2), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2),
            RT_HEAD(2), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(2), RT_HEAD(4), RT_HEAD(3), RT_HEAD(4), RT_HEAD(2),
            RT_HEAD(4), RT_HEAD(3), RT_HEAD(4), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3),
            RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(2), RT_HEAD(2), RT_HEAD(2), RT_HEAD(2), RT_HEAD(2),
            RT_HEAD(2), RT_HEAD(2), RT_HEAD(2), RT_HEAD(2), RT_HEAD(2), RT_HEAD(2), RT_HEAD(2), RT_HEAD(2), RT_HEAD(2),
            RT_HEAD(2), RT_HEAD(4), RT_HEAD(2), RT_HEAD(4), RT_HEAD(2), RT_HEAD(4), RT_HEAD(3), RT_HEAD(4), RT_HEAD(3),
            RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(4),
            RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(4), RT_HEAD(3), RT_HEAD(3), RT_HEAD(4), RT_HEAD(3),
            RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(4), RT_HEAD(2), RT_HEAD(3), RT_HEAD(4), RT_HEAD(3), RT_HEAD(4),
            RT_HEAD(2), RT_HEAD(4), RT_HEAD(3), RT_HEAD(4), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3),
            RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3),
            RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3),
            RT_HEAD(2), RT_HEAD(3), RT_HEAD(4), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(4), RT_HEAD(3),
            RT_HEAD(3), RT_HEAD(4), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(4), RT_HEAD(3), RT_HEAD(3),
            RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3),
            RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(2), RT_HEAD(3), RT_HEAD(3),
            RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3),
            RT_HEAD(2), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2),
            RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2),
            RT_HEAD(2), RT_HEAD(2), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(3),
            RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(3), RT_HEAD(3),
            RT_HEAD(2), RT_HEAD(4), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(4), RT_HEAD(2), RT_HEAD(3),
            RT_HEAD(4), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(4), RT_HEAD(2), RT_HEAD(3), RT_HEAD(3),
            RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2),
            RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3),
            RT_HEAD(2), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3), RT_HEAD(2),
            RT_HEAD(2), RT_HEAD(3), RT_HEAD(2), RT_HEAD(3),
        },
#endif
};

// A node that was all free, on the list of its level's largest runs, which is empty, as are all to the next level's.
static void put_first(struct rt_lists_level* level, struct rt_listed* node, rt_word used) {
  node->used = used;
  rt_link_between(&level->head[RT_MOST_CLASS].link, &node->link, &level[1].head[0].link);
}

// A block of the level's cells, where no node of the level has room: a cell of a level above is cut, down to here. The
// chain has led to `link`, behind `head`.
RT_INLINE void* take_above(struct rt_lists_level* level, const struct rt_head* wanted, const rt_word* ones,
                           struct rt_head* head, struct rt_link* link) {
  const struct rt_lists_tables* tables = level->tables;
  struct rt_listed* node = (struct rt_listed*)(void*)link;
  struct rt_lists_level* from = head->level;
  const rt_word used = node->used;
  rt_word first = 0;
  if (from != NULL) {
    RT_LOOP(listed);
    const rt_word ends = rt_ends_of_runs(used, head);
    const rt_word end = rt_lowest_bit(ends);
    first = end >> head->others;
    node->used = used ^ first;
    if (ends == end) {
      if (head != from->head) {
        rt_pass_head(head, link);
      } else {
        rt_unlink(&head->link, link->next);
        rt_link_to_itself(link);
      }
    }
  } else if (head != level->head) {
    from = (struct rt_lists_level*)(void*)head;
    first = rt_lowest_bit(~used & RT_FULL);
    if (first == 0U) {
      return NULL;
    }
    node->used = used ^ first;
  } else {
    first = rt_lowest_bit(rt_ends_of_runs(used, wanted)) >> wanted->others;
    if (first == 0U) {
      return NULL;
    }
    const rt_word mask = first * *ones;
    node->used = used ^ mask;
    node->goes_on |= mask & (mask >> 1U);
    return rt_cell_address(level, RT_FIRST_CELL(level, node) + RT_INDEX(tables, first));
  }
  node = rt_child(from, RT_FIRST_CELL(from, node) + RT_INDEX(tables, first));
  --from;
  while (from != level) {
    RT_LOOP(cut);
    put_first(from, node, 1);
    node = rt_child(from, RT_FIRST_CELL(from, node));
    --from;
  }
  put_first(level, node, *ones);
  node->goes_on = *ones >> 1U;
  return rt_cell_address(level, RT_FIRST_CELL(level, node));
}

void* coffer_rt_lists_take_above(struct rt_lists_level* level, const struct rt_head* wanted, struct rt_head* head,
                                 struct rt_link* link) {
  return take_above(level, wanted, &wanted->ones, head, link);
}

void* coffer_rt_lists_take_sum_above(struct rt_lists_level* level, const struct rt_head* wanted, const rt_word* ones,
                                     struct rt_head* head, struct rt_link* link) {
  return take_above(level, wanted, ones, head, link);
}

// A block of as many cells as the request needs. Its place is that of a block of the order above, whose other cells
// stay free; if that is a whole cell, it is a node of which only a part is taken.
void* coffer_rt_lists_take_sum(struct coffer_rt* heap, size_t size) {
  const size_t size_less_1 = size - (size != 0U ? 1U : 0U);
  if (size_less_1 >= heap->u.nodes.limit) {
    return NULL;
  }
  struct rt_lists_level* level = heap->u.nodes.level;
  size_t rest = size_less_1 >> heap->min_log2;
  rt_word part = 0;  // of a cell of `level`, if its node holds the block: cells
  while (rest >= RT_RADIX / 2U) {
    RT_LOOP(scale);
    part = rest < RT_RADIX - 1U ? ((rt_word)2 << rest) - 1U : 0U;
    rest >>= RT_RADIX_LOG2;
    ++level;
  }
  const rt_word ones = ((rt_word)2 << rest) - 1U;
  unsigned char* block =
      (unsigned char*)rt_lists_take_run(heap, level, rt_head(level, heap->u.nodes.tables->order[rest]), &ones);
  if (part != 0U && block != NULL) {
    RT_LOOP(split);
    --level;
    struct rt_listed* node = rt_node_with(level, (size_t)(block - heap->base) >> level->cell_log2);
    node->used = part;
    node->goes_on = part >> 1U;
    struct rt_link* list = rt_class_list(level, part, false);
    rt_link_between(list, &node->link, list->next);
  }
  return block;
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
static void relist(struct coffer_rt* heap, struct rt_lists_level* level, struct rt_listed* node, rt_word used) {
  const rt_word old = node->used;
  node->used = used;
  if (level != heap->u.nodes.top) {
    if (old != 0U) {
      rt_unlink(node->link.previous, node->link.next);
    }
    if (used == RT_FULL) {
      rt_link_to_itself(&node->link);
    } else if (used != 0U) {
      struct rt_link* list = rt_class_list(level, used, false);
      rt_link_between(list, &node->link, list->next);
    } else {
      // All free: on no list.
    }
  }
}

// A level's lists, empty; in the chain from the level below to the one above.
static void init_heads(const struct coffer_rt* heap, struct rt_lists_level* level) {
  const bool is_top = level == heap->u.nodes.top;
  struct rt_link* before = level == heap->u.nodes.level ? NULL : &level[-1].head[RT_MOST_CLASS].link;
  for (unsigned k = 0; k < RT_RADIX_LOG2; ++k) {
    struct rt_head* head = &level->head[k];
    const unsigned others = (1U << k) - 1U;
    head->first = RT_ALIGNED(k);
    head->but_last = RT_FULL & ~(RT_ALIGNED(k) << others);
    head->ones = ((((rt_word)1 << others) - 1U) << 1U) | 1U;
    head->others = others;
    head->level = is_top ? NULL : level;
    head->link.previous = before;
    head->link.next = is_top ? &level->nodes->link : &level[1].head[0].link;
    if (k > 0U && !is_top) {
      before->next = &head->link;
    }
    before = &head->link;
  }
  if (is_top) {
    level->nodes->link.previous = &level->head[0].link;
  }
}

static void init_nodes(struct coffer_rt* heap, struct rt_lists_level* level) {
  const size_t nodes = (level->cells + RT_RADIX - 1U) >> RT_RADIX_LOG2;
  for (size_t i = 0; i < nodes; ++i) {
    const size_t present = level->cells - (i << RT_RADIX_LOG2);
    const rt_word beyond = present >= RT_RADIX ? 0U : RT_FULL & ~(((rt_word)1 << present) - 1U);
    rt_word used = beyond;
    if (i + 1U == nodes && level != heap->u.nodes.level &&
        rt_node_with(level - 1, (level[-1].cells - 1U))->used != 0U) {
      used |= (rt_word)1 << ((level->cells - 1U) & (RT_RADIX - 1U));  // not all of the last cell is there
    }
    // Cells beyond the end look live, as one block; so the last block's cells end before it.
    level->nodes[i].used = 0;
    level->nodes[i].goes_on = beyond & (beyond >> 1U);
    relist(heap, level, &level->nodes[i], used);
  }
}

static void init(struct coffer_rt* heap) {
  struct rt_nodes* all = &heap->u.nodes;
  size_t cells = heap->bytes >> heap->min_log2;
  const unsigned levels = level_count(cells);
  all->top = all->level + (levels - 1U);
  all->tables = &lists_tables;
  const unsigned most_log2 = (levels * RT_RADIX_LOG2) - 1U + heap->min_log2;
  all->limit = most_log2 < RT_WORD_BITS - 1U ? (size_t)1 << most_log2 : (size_t)PTRDIFF_MAX;
  struct rt_listed* nodes = (struct rt_listed*)(void*)(all->level + levels);
  all->first = nodes;
  unsigned log2 = heap->min_log2;
  uintptr_t cell_bytes = (uintptr_t)1 << log2;
  for (struct rt_lists_level* level = all->level; level <= all->top; ++level) {
    level->nodes = nodes;
    level->cells = cells;
    level->cell_log2 = log2;
    level->fours = level == all->top ? 0U : RT_ALIGNED(2);
    level->tables = all->tables;
    level->origin = (uintptr_t)heap->base - (RT_FIRST_CELL(level, nodes) * cell_bytes);
    // The level below has been laid out, but for the lowest, which has none.
    const struct rt_listed* below = level == all->level ? nodes : level[-1].nodes;
    level->children = (uintptr_t)below - (RT_FIRST_CELL(level, nodes) * sizeof(struct rt_listed));
    cells = (cells + RT_RADIX - 1U) >> RT_RADIX_LOG2;
    nodes += cells;
    log2 += RT_RADIX_LOG2;
    cell_bytes *= RT_RADIX;
  }
  for (struct rt_lists_level* level = all->level; level <= all->top; ++level) {
    init_heads(heap, level);
  }
  for (struct rt_lists_level* level = all->level; level <= all->top; ++level) {
    init_nodes(heap, level);
  }
}

static void* alloc(struct coffer_rt* heap, size_t size) {
  if (heap->sums) {
    return coffer_rt_lists_take_sum(heap, size);
  }
  const size_t size_less_1 = size - (size != 0U ? 1U : 0U);
  return size_less_1 < heap->u.nodes.limit ? rt_lists_take(heap, size_less_1) : NULL;
}

// Why no live block starts at a cell, where rt_lists_find has stopped: it is inside one, inside a unit, or free.
enum coffer_rt_error coffer_rt_lists_blame(const struct coffer_rt* heap, const unsigned char* block,
                                           const struct rt_lists_level* level, size_t cell) {
  if (((size_t)(block - heap->base) & (((size_t)1 << heap->min_log2) - 1U)) != 0U) {
    return COFFER_RT_BAD;
  }
  const struct rt_lists_level* at = level;
  const struct rt_listed* node = rt_node_with(at, cell);
  size_t place = cell;
  while (node->used == 0U) {
    RT_LOOP(blame);
    place >>= RT_RADIX_LOG2;
    ++at;
    node = rt_node_with(at, place);
  }
  return (RT_SHIFTED_RIGHT(node->used, place) & 1U) == 0U ? COFFER_RT_DOUBLE : COFFER_RT_BAD;
}

static enum coffer_rt_error give_back(struct coffer_rt* heap, unsigned char* block) {
  struct rt_lists_place place;
  if (!rt_lists_find(heap, (size_t)(block - heap->base), &place)) {
    return coffer_rt_lists_blame(heap, block, place.level, place.cell);
  }
  rt_lists_vacate(&place);
  return COFFER_RT_OK;
}

// The cells of a live block.
static rt_word mask_of(const struct rt_lists_place* place) { return place->used ^ place->used_after; }

static size_t usable_size(const struct coffer_rt* heap, const unsigned char* block) {
  struct rt_lists_place place;
  size_t bytes = 0;
  if (rt_lists_find(heap, (size_t)(block - heap->base), &place)) {
    const rt_word mask = mask_of(&place);
    bytes = (size_t)(rt_highest((size_t)mask) - rt_lowest(mask) + 1U) << place.level->cell_log2;
  }
  return bytes;
}

static size_t largest_free(const struct coffer_rt* heap) {
  const struct rt_lists_level* level = heap->u.nodes.top;
  const rt_word cells = ~level->nodes->used & RT_FULL;
  size_t bytes = cells == 0U ? 0U : (size_t)1 << (rt_largest_run(cells) + level->cell_log2);
  while (bytes == 0U && level > heap->u.nodes.level) {
    --level;
    unsigned order = RT_RADIX_LOG2;
    while (bytes == 0U && order > 0U) {
      RT_LOOP(down);
      --order;
      if ((uintptr_t)level->head[order].link.next >= (uintptr_t)heap->u.nodes.first) {
        bytes = (size_t)1 << (order + level->cell_log2);
      }
    }
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
  while (rt_node_with(found.level, found.cell)->used == 0U) {
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
  relist(heap, found.level, node, node->used ^ found.mask);
  struct rt_lists_level* level = found.level;
  while (level != span->level) {
    RT_LOOP(occupy);
    --level;
    const size_t cell = span->cell >> ((unsigned)(level - span->level) * RT_RADIX_LOG2);
    const rt_word mask = level == span->level ? span->mask : (rt_word)1 << (cell & (RT_RADIX - 1U));
    node = rt_node_with(level, cell);
    relist(heap, level, node, mask);
  }
  node->goes_on |= span->mask & (span->mask >> 1U);
}

// Gives a live block another size where it stands, if the memory behind it and its alignment allow it. (The block is
// freed for the look: its contents are outside of the heap's state.)
static bool resize(struct coffer_rt* heap, const unsigned char* block, size_t size) {
  const size_t offset = (size_t)(block - heap->base);
  struct rt_lists_place place;
  struct rt_request request;
  if (!rt_lists_find(heap, offset, &place) || !coffer_rt_tree_request(heap, 1, size, &request) ||
      request.level > (size_t)(heap->u.nodes.top - heap->u.nodes.level)) {
    return false;
  }
  rt_lists_vacate(&place);
  struct span span = {heap->u.nodes.level + request.level, 0, 0};
  span.cell = offset >> span.level->cell_log2;
  span.mask = ((((rt_word)1 << (request.cells - 1U)) << 1U) - 1U) << (span.cell & (RT_RADIX - 1U));
  const struct span found = standing(&span);
  const bool is_aligned = (offset & (((size_t)1 << (request.run + span.level->cell_log2)) - 1U)) == 0U;
  const bool fits = is_aligned && (rt_node_with(found.level, found.cell)->used & found.mask) == 0U;
  if (!fits) {
    span = (struct span){place.level, place.cell, mask_of(&place)};
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
