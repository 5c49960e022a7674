// The two bounded calls of coffer-rt with lists, to be put in place in coffer_rt_alloc and coffer_rt_free.
#ifndef COFFER_RT_LISTS_H
#define COFFER_RT_LISTS_H

#include "heap.h"

#ifndef RT_INLINE
#define RT_INLINE static inline __attribute__((always_inline))
#endif

#define RT_MOST_CLASS (RT_RADIX_LOG2 - 1U)

struct rt_run {
  rt_word but_last;  // of each field of 2^order bits all but the last
  rt_word first;     // the first bit of each field
  rt_word ones;      // one field
  rt_word others;    // the bits of a field, less 1
};

// One constant, so that one register has the address of all that the calls look up.
struct rt_lists_tables {
  struct rt_run runs[RT_RADIX_LOG2];
  rt_word pairs;  // the bits whose index is a multiple of 2, of 4
  rt_word fours;
#if !RT_HAS_SCAN
  rt_word de_bruijn;
  uint8_t index[1U << COFFER_RT_WORD_LOG2];  // of the only bit, by what multiplying it with de_bruijn gives

#endif
  uint8_t lowest_offset[RT_RADIX];  // of a set of classes the lowest, times sizeof(struct rt_listed)
  uint8_t order[RT_RADIX / 2U];     // the smallest with 2^order > i
#if COFFER_RT_RADIX_LOG2 == 5
  uint8_t class_offset[256];  // of a word, by which of its eight fields of four cells are free
#endif
};
extern const struct rt_lists_tables coffer_rt_lists_tables;

#if RT_HAS_SCAN
#define RT_INDEX(tables, bit) rt_lowest(bit)
#else
#define RT_INDEX(tables, bit) \
  ((tables)->index[(rt_word)((bit) * (tables)->de_bruijn) >> ((1U << COFFER_RT_WORD_LOG2) - COFFER_RT_WORD_LOG2)])
#endif

// The node that a cell is of.
RT_INLINE struct rt_listed* rt_node_with(const struct rt_lists_level* level, size_t cell) {
  return level->nodes + (cell >> RT_RADIX_LOG2);
}

// Hides from the compiler how a value was made, where what it makes of the knowledge takes more instructions.
#define RT_OPAQUE(value) __asm__("" : "+r"(value))

// The order of the largest aligned run in a word that is neither empty nor full, times sizeof(struct rt_listed).
RT_INLINE size_t rt_class_offset(const struct rt_lists_tables* tables, rt_word cells) {
  const rt_word pairs = cells & (cells >> 1U);
#if COFFER_RT_RADIX_LOG2 == 2
  return (pairs & tables->pairs) != 0U ? sizeof(struct rt_listed) : 0U;
#else
  const rt_word fours = pairs & (pairs >> 2U) & tables->fours;
  if (fours == 0U) {
    return (pairs & tables->pairs) != 0U ? sizeof(struct rt_listed) : 0U;
  }
#if COFFER_RT_RADIX_LOG2 == 5
  const rt_word halves = fours | (fours >> 14U);
  return tables->class_offset[(halves | (halves >> 7U)) & 255U];
#else
  size_t offset = 2U * sizeof(struct rt_listed);
  rt_word runs = fours & (fours >> 4U) & RT_ALIGNED(3);
  offset += runs != 0U ? sizeof(struct rt_listed) : 0U;
#if COFFER_RT_RADIX_LOG2 >= 6
  runs &= (runs >> 8U) & RT_ALIGNED(4);
  offset += runs != 0U ? sizeof(struct rt_listed) : 0U;
  runs &= (runs >> 16U) & RT_ALIGNED(5);
  offset += runs != 0U ? sizeof(struct rt_listed) : 0U;
#endif
  return offset;
#endif
#endif
}

// Both tables' rows and lists' heads stand in the same distance, so that one offset serves both.
_Static_assert(sizeof(struct rt_run) == sizeof(struct rt_listed), "one offset for runs and heads");

RT_INLINE struct rt_listed* rt_head(struct rt_lists_level* level, size_t offset) {
  return (struct rt_listed*)(void*)((unsigned char*)level->head + offset);
}

RT_INLINE const struct rt_run* rt_run_at(const struct rt_lists_tables* tables, size_t offset) {
  return (const struct rt_run*)(const void*)((const unsigned char*)tables->runs + offset);
}

// Puts a node on a list; returns the set of lists with the list in it.
RT_INLINE rt_word rt_link(struct rt_listed* head, rt_word not_empty, struct rt_listed* node) {
  struct rt_listed* first = head->next;
  node->previous = head;
  node->next = first;
  head->next = node;
  first->previous = node;
  return not_empty | head->cells;
}

// As rt_link, on a list that is empty.
RT_INLINE void rt_link_alone(struct rt_listed* head, struct rt_listed* node) {
  node->previous = head;
  node->next = head;
  head->next = node;
  head->previous = node;
}

// Takes what is between two nodes off their list; returns the set of lists without the list if it is empty now.
RT_INLINE rt_word rt_unlink(rt_word not_empty, struct rt_listed* previous, struct rt_listed* next) {
  previous->next = next;
  next->previous = previous;
  return next == previous ? not_empty ^ next->cells : not_empty;
}

// The last cells of the aligned runs of 2^order free cells.
RT_INLINE rt_word rt_ends_of_runs(rt_word cells, const struct rt_run* run) {
  // In each field of 2^order bits, 1 is added to all bits but the last: it is carried into the last if they are ones.
  const rt_word low = cells & run->but_last;
  return (low + run->first) & (cells ^ low);
}

RT_INLINE rt_word rt_lowest_bit(rt_word x) {
  rt_word bit = x & ((rt_word)0 - x);
  RT_OPAQUE(bit);
  return bit;
}

// The number of a node's cell, from an origin that is the level's own: `origin` and `children` are from there too. A
// node has two cells for each of its own bytes, so twice its address counts cells.
#if COFFER_RT_RADIX_LOG2 == COFFER_RT_WORD_LOG2
#define RT_FIRST_CELL(level, node) ((uintptr_t)(node) * 2U)
_Static_assert(sizeof(struct rt_listed) * 2U == RT_RADIX, "two cells a byte");
#else
#define RT_FIRST_CELL(level, node) ((uintptr_t)((node) - (level)->nodes) << RT_RADIX_LOG2)
#endif

RT_INLINE void* rt_cell_address(const struct rt_lists_level* level, uintptr_t cell) {
  return (void*)(level->origin + (cell << level->cell_log2));
}

// The node of the level below that a cell is made of.
RT_INLINE struct rt_listed* rt_child(const struct rt_lists_level* level, uintptr_t cell) {
  return (struct rt_listed*)(level->children + (cell * sizeof(struct rt_listed)));
}

void* coffer_rt_lists_take_above(struct coffer_rt* heap, struct rt_lists_level* level, size_t order_offset);

// size_less_1 is below heap->u.nodes.limit.
RT_INLINE void* rt_lists_take(struct coffer_rt* heap, size_t size_less_1) {
  struct rt_lists_level* level = heap->u.nodes.level;
  const struct rt_lists_tables* tables = heap->u.nodes.tables;
  size_t rest = size_less_1 >> level->cell_log2;
  while (rest >= RT_RADIX / 2U) {
    RT_LOOP(scale);
    rest >>= RT_RADIX_LOG2;
    ++level;
  }
  const unsigned order = tables->order[rest];
  const size_t order_offset = (size_t)order * sizeof(struct rt_listed);
  rt_word not_empty = level->not_empty;
  const rt_word fitting = not_empty >> order;
  if (fitting == 0U) {
    return coffer_rt_lists_take_above(heap, level, order_offset);
  }
  const size_t more = tables->lowest_offset[fitting];
  const struct rt_run* run = rt_run_at(tables, order_offset + more);
  struct rt_listed* head = rt_head(level, order_offset + more);
  struct rt_listed* node = head->next;
  const rt_word cells = node->cells;
  const rt_word ends = rt_ends_of_runs(cells, run);
  const rt_word end = rt_lowest_bit(ends);
  const rt_word first = end >> run->others;
  const rt_word mask = first * rt_run_at(tables, order_offset)->ones;
  const rt_word left = cells ^ mask;
  node->cells = left;
  node->inside |= mask ^ first;
  if (ends == end) {  // it was the only run of its size
    not_empty = rt_unlink(not_empty, head, node->next);
    if (more != 0U) {
      not_empty = rt_link(head - 1, not_empty, node);
    } else if (left != 0U) {
      not_empty = rt_link(rt_head(level, rt_class_offset(tables, left)), not_empty, node);
    } else {
      // A node with nothing free is on no list.
    }
    level->not_empty = not_empty;
  }
  return rt_cell_address(level, RT_FIRST_CELL(level, node) + RT_INDEX(tables, first));
}

// A live block: where it is, and its cells.
struct rt_lists_place {
  struct rt_lists_level* level;
  struct rt_listed* node;
  size_t cell;
  rt_word cells;   // the node's, before
  rt_word inside;  // the node's, before
  rt_word mask;
  rt_word full;  // all of a node's cells
};

// Finds the live block that starts at an offset of the region; false if there is none.
RT_INLINE bool rt_lists_find(const struct coffer_rt* heap, size_t offset, struct rt_lists_place* place) {
  struct rt_lists_level* level = heap->u.nodes.level;
  size_t cell = offset >> level->cell_log2;
#ifndef COFFER_RT_UNCHECKED
  if ((cell << level->cell_log2) != offset) {
    return false;
  }
#endif
  struct rt_listed* node = rt_node_with(level, cell);
  rt_word cells = node->cells;
  rt_word full = RT_FULL;
  RT_OPAQUE(full);
  // A node that is all free has no live block: it belongs to a free or live cell above it, at whose start we must be.
  // The top node is never all free, for it has fewer cells than fit in.
  while (cells == full) {
    RT_LOOP(rise);
#ifndef COFFER_RT_UNCHECKED
    // The cell's place in its node; as a shift, for it is cheaper not to have what all other shifts mask by themselves.
    if ((rt_word)(cell << (RT_WORD_BITS - RT_RADIX_LOG2)) != 0U) {
      return false;
    }
#endif
    cell >>= RT_RADIX_LOG2;
    ++level;
    node = rt_node_with(level, cell);
    cells = node->cells;
  }
  const rt_word inside = node->inside;
#ifndef COFFER_RT_UNCHECKED
  if ((((inside | cells) >> (cell & (RT_RADIX - 1U))) & 1U) != 0U) {
    return false;
  }
#endif
  const rt_word run = (inside >> (cell & (RT_RADIX - 1U))) >> 1U;
  place->level = level;
  place->node = node;
  place->cell = cell;
  place->cells = cells;
  place->inside = inside;
  place->mask = (run ^ (run + 1U)) << (cell & (RT_RADIX - 1U));
  place->full = full;
  return true;
}

// Gives a found block's cells back.
RT_INLINE void rt_lists_vacate(const struct rt_lists_place* place) {
  struct rt_lists_level* level = place->level;
  struct rt_listed* node = place->node;
  size_t cell = place->cell;
  rt_word old = place->cells;
  rt_word cells = old | place->mask;
  node->inside = place->inside & ~place->mask;
  while (cells == place->full) {
    RT_LOOP(filled);
    node->cells = cells;
    // It had free cells before, for no block is a whole node: it was on a list.
    struct rt_listed* next = node->next;
    struct rt_listed* previous = node->previous;
    previous->next = next;
    next->previous = previous;
    if (next == previous) {
      level->not_empty ^= next->cells;
    }
    cell >>= RT_RADIX_LOG2;
    ++level;
    node = rt_node_with(level, cell);
    old = node->cells;
    cells = old | ((rt_word)1 << (cell & (RT_RADIX - 1U)));
  }
  node->cells = cells;
  const struct rt_lists_tables* tables = level->tables;
  if (tables != NULL) {
    RT_LOOP(relisted);
    rt_word not_empty = level->not_empty;
    if (old != 0U) {
      not_empty = rt_unlink(not_empty, node->previous, node->next);
    }
    level->not_empty = rt_link(rt_head(level, rt_class_offset(tables, cells)), not_empty, node);
  }
}

#endif
