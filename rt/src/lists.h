/* SPDX-License-Identifier: MIT */
// The two bounded calls of coffer-rt with lists, to be put in place in coffer_rt_alloc and coffer_rt_free.
#ifndef COFFER_RT_LISTS_H
#define COFFER_RT_LISTS_H

#include "heap.h"

#ifndef RT_INLINE
#define RT_INLINE static inline __attribute__((always_inline))
#endif

#define RT_MOST_CLASS (RT_RADIX_LOG2 - 1U)

// Offsets of heads in a level.
#if COFFER_RT_WORD_LOG2 == 5
typedef uint8_t rt_offset;
#else
typedef uint16_t rt_offset;
#endif
#define RT_HEAD(k) ((rt_offset)((k) * sizeof(struct rt_head)))

// One constant, so that one register has the address of all that the calls look up.
struct rt_lists_tables {
  rt_word pairs;  // the bits whose index is a multiple of 2
#if !RT_HAS_SCAN
  rt_word de_bruijn;
  uint8_t index[1U << COFFER_RT_WORD_LOG2];  // of the only bit, by what multiplying it with de_bruijn gives

#endif
  rt_offset order[RT_RADIX / 2U];  // where the head is of the smallest order with 2^order > i
#if COFFER_RT_RADIX_LOG2 == 5
  rt_word gather;
  rt_offset class_head[256];  // of a word that has four free cells, by what multiplying its fours with `gather` gives
#endif
};

#if RT_HAS_SCAN
#define RT_INDEX(tables, bit) ((void)(tables), rt_lowest(bit))
#else
#define RT_INDEX(tables, bit) \
  ((tables)->index[(rt_word)((bit) * (tables)->de_bruijn) >> ((1U << COFFER_RT_WORD_LOG2) - COFFER_RT_WORD_LOG2)])
#endif

// The node that a cell is of.
RT_INLINE struct rt_listed* rt_node_with(const struct rt_lists_level* level, size_t cell) {
  return level->nodes + (cell >> RT_RADIX_LOG2);
}

// By a cell's place in its node. A RISC-V processor looks at these bits of the amount only, which GCC forgets if it
// needs them more than once.
#if defined(__riscv) && COFFER_RT_RADIX_LOG2 == COFFER_RT_WORD_LOG2 && defined(__GNUC__)
RT_INLINE rt_word rt_shifted_right(rt_word x, size_t cell) {
  rt_word shifted;
  __asm__("srl %0, %1, %2" : "=r"(shifted) : "r"(x), "r"(cell));
  return shifted;
}
RT_INLINE rt_word rt_shifted_left(rt_word x, size_t cell) {
  rt_word shifted;
  __asm__("sll %0, %1, %2" : "=r"(shifted) : "r"(x), "r"(cell));
  return shifted;
}
#define RT_SHIFTED_RIGHT(x, cell) rt_shifted_right((x), (cell))
#define RT_SHIFTED_LEFT(x, cell) rt_shifted_left((x), (cell))
#else
#define RT_SHIFTED_RIGHT(x, cell) ((rt_word)((x) >> ((cell) & (RT_RADIX - 1U))))
#define RT_SHIFTED_LEFT(x, cell) ((rt_word)((x) << ((cell) & (RT_RADIX - 1U))))
#endif

// Hides from the compiler how a value was made, where what it makes of the knowledge takes more instructions.
#define RT_OPAQUE(value) __asm__("" : "+r"(value))

RT_INLINE struct rt_head* rt_head(struct rt_lists_level* level, size_t offset) {
  return (struct rt_head*)(void*)((unsigned char*)level + offset);
}

// The list for the largest aligned run of free cells in a node that has some, and not all. The top has none: NULL, if
// it is asked for.
RT_INLINE struct rt_link* rt_class_list(struct rt_lists_level* level, rt_word used, bool may_be_top) {
  const struct rt_lists_tables* tables = level->tables;
  const rt_word pairs = used | (used >> 1U);
  const rt_word all = level->fours;
#if COFFER_RT_RADIX_LOG2 == 2
  const rt_word fours = all;
#else
  const rt_word fours = (pairs | (pairs >> 2U)) & all;
#endif
  if (fours == all) {
    if (may_be_top && all == 0U) {
      return NULL;
    }
    return (pairs & tables->pairs) == tables->pairs ? &level->head[0].link : &level->head[1].link;
  }
#if COFFER_RT_RADIX_LOG2 == 5
  return &rt_head(level, tables->class_head[(rt_word)(fours * tables->gather) >> 24U])->link;
#else
  size_t offset = RT_HEAD(2);
  rt_word runs = ~(fours | (fours >> 4U)) & RT_ALIGNED(3);
  offset += runs != 0U ? RT_HEAD(1) : 0U;
#if COFFER_RT_RADIX_LOG2 >= 6
  runs &= (runs >> 8U) & RT_ALIGNED(4);
  offset += runs != 0U ? RT_HEAD(1) : 0U;
  runs &= (runs >> 16U) & RT_ALIGNED(5);
  offset += runs != 0U ? RT_HEAD(1) : 0U;
#endif
  return &rt_head(level, offset)->link;
#endif
}

RT_INLINE void rt_link_between(struct rt_link* before, struct rt_link* link, struct rt_link* after) {
  link->previous = before;
  link->next = after;
  before->next = link;
  after->previous = link;
}

// Takes what is between two links out of the chain.
RT_INLINE void rt_unlink(struct rt_link* previous, struct rt_link* next) {
  previous->next = next;
  next->previous = previous;
}

// A link in no chain, which rt_unlink does nothing to.
RT_INLINE void rt_link_to_itself(struct rt_link* link) {
  link->next = link;
  link->previous = link;
}

// The first node of a list goes to the end of the one before: it changes places with the list's head.
RT_INLINE void rt_pass_head(struct rt_head* head, struct rt_link* link) {
  rt_unlink(&head->link, link->next);
  rt_link_between(head->link.previous, link, &head->link);
}

// The last cells of the aligned runs of as many free cells as the head's list has.
RT_INLINE rt_word rt_ends_of_runs(rt_word used, const struct rt_head* head) {
  // In each field of 2^k bits, 1 is added to all bits but the last: it is carried into the last if they are ones.
  const rt_word cells = ~used & RT_FULL;
  const rt_word low = cells & head->but_last;
  return (low + head->first) & (cells ^ low);
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

void* coffer_rt_lists_take_above(struct rt_lists_level* level, const struct rt_head* wanted, struct rt_head* head,
                                 struct rt_link* link);
void* coffer_rt_lists_take_sum_above(struct rt_lists_level* level, const struct rt_head* wanted, const rt_word* ones,
                                     struct rt_head* head, struct rt_link* link);

// A block in a run of as many cells as the wanted list has. It gets all of them, or, if `ones` is given, those of the
// run's first cells: the rest stays free.
RT_INLINE void* rt_lists_take_run(struct coffer_rt* heap, struct rt_lists_level* level, struct rt_head* wanted,
                                  const rt_word* ones) {
  const struct rt_lists_tables* tables = heap->u.nodes.tables;
  struct rt_link* link = wanted->link.next;
  const uintptr_t nodes = (uintptr_t)heap->u.nodes.first;
  while ((uintptr_t)link < nodes) {
    RT_LOOP(empty);
    link = link->next;
  }
  struct rt_head* const head = (struct rt_head*)(void*)link->previous;
  if (head->level != level) {
    return ones == NULL ? coffer_rt_lists_take_above(level, wanted, head, link)
                        : coffer_rt_lists_take_sum_above(level, wanted, ones, head, link);
  }
  RT_LOOP(near);
  struct rt_listed* node = (struct rt_listed*)(void*)link;
  const rt_word used = node->used;
  const rt_word ends = rt_ends_of_runs(used, head);
  const rt_word end = rt_lowest_bit(ends);
  const rt_word first = end >> head->others;
  const rt_word mask = first * (ones == NULL ? wanted->ones : *ones);
  const rt_word left = used ^ mask;
  node->used = left;
  node->goes_on |= mask & (mask >> 1U);
  if (ends == end) {  // it was the only run of its size
    if (head != wanted) {
      rt_pass_head(head, link);
    } else {
      RT_LOOP(exact);
      rt_unlink(&head->link, link->next);
      if (left != RT_FULL) {
        struct rt_link* list = rt_class_list(level, left, false);
        rt_link_between(list, link, list->next);
      } else {
        rt_link_to_itself(link);
      }
    }
  }
  return rt_cell_address(level, RT_FIRST_CELL(level, node) + RT_INDEX(tables, first));
}

// size_less_1 is below heap->u.nodes.limit.
RT_INLINE void* rt_lists_take(struct coffer_rt* heap, size_t size_less_1) {
  struct rt_lists_level* level = heap->u.nodes.level;
  const struct rt_lists_tables* tables = heap->u.nodes.tables;
  size_t rest = size_less_1 >> heap->min_log2;
  while (rest >= RT_RADIX / 2U) {
    RT_LOOP(scale);
    rest >>= RT_RADIX_LOG2;
    ++level;
  }
  return rt_lists_take_run(heap, level, rt_head(level, tables->order[rest]), NULL);
}

// A live block: where it is, its cells, and those of its node before and after it.
struct rt_lists_place {
  struct rt_lists_level* level;
  struct rt_listed* node;
  size_t cell;
  rt_word one;  // 1, which stays in its register
  rt_word used;
  rt_word used_after;
  rt_word goes_on_after;
};

// Finds the live block that starts at an offset of the region; false if there is none. Then `level` and `cell` are how
// far the search got, for coffer_rt_lists_blame.
RT_INLINE bool rt_lists_find(const struct coffer_rt* heap, size_t offset, struct rt_lists_place* place) {
  size_t cell = offset >> heap->min_log2;
#ifndef COFFER_RT_UNCHECKED
  if ((cell << heap->min_log2) != offset) {
    place->level = heap->u.nodes.level;
    place->cell = cell;
    return false;
  }
#endif
  struct rt_lists_level* level = heap->u.nodes.level;
  struct rt_listed* node = heap->u.nodes.first + (cell >> RT_RADIX_LOG2);
  rt_word used = node->used;
  // A node that is all free has no live block: it belongs to a free or live cell above it, at whose start we must be.
  // The top node is never all free, for it has fewer cells than fit in.
  while (used == 0U) {
#ifndef COFFER_RT_UNCHECKED
    // The cell's place in its node; as a shift, for it is cheaper not to have what all other shifts mask by themselves.
    if ((rt_word)(cell << (RT_WORD_BITS - RT_RADIX_LOG2)) != 0U) {
      place->level = level;
      place->cell = cell;
      return false;
    }
#endif
    RT_LOOP(rise);
    cell >>= RT_RADIX_LOG2;
    ++level;
    node = rt_node_with(level, cell);
    used = node->used;
  }
  const rt_word goes_on = node->goes_on;
  rt_word one = 1;
  RT_OPAQUE(one);
  const rt_word first = RT_SHIFTED_LEFT(one, cell);
  // Adding the first cell carries through all that go on, into the last.
  const rt_word carried = goes_on + first;
  place->level = level;
  place->node = node;
  place->cell = cell;
  place->one = one;
  place->used = used;
  place->used_after = used ^ goes_on ^ carried;
  place->goes_on_after = goes_on & carried;
#ifndef COFFER_RT_UNCHECKED
  // A block starts at a cell that is used and does not go on from the one before.
  return (((goes_on << 1U) ^ used) & first) != 0U;
#else
  return true;
#endif
}

// Gives a found block's cells back.
RT_INLINE void rt_lists_vacate(const struct rt_lists_place* place) {
  struct rt_lists_level* level = place->level;
  struct rt_listed* node = place->node;
  size_t cell = place->cell;
  rt_word used = place->used_after;
  node->goes_on = place->goes_on_after;
  while (used == 0U) {
    RT_LOOP(filled);
    node->used = 0;
    rt_unlink(node->link.previous, node->link.next);
    cell >>= RT_RADIX_LOG2;
    ++level;
    node = rt_node_with(level, cell);
    used = node->used ^ RT_SHIFTED_LEFT(place->one, cell);
  }
  node->used = used;
  struct rt_link* list = rt_class_list(level, used, true);
  if (list != NULL) {
    RT_LOOP(relisted);
    rt_unlink(node->link.previous, node->link.next);
    rt_link_between(list, &node->link, list->next);
  }
}

#endif
