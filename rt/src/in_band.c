// SPDX-License-Identifier: MIT
// The buddy systems as published (thesis, chapters 3 and 4), with a header in each block: Knuth's, and the Estranged
// Buddy. The tree is what a program should use; these are the yardstick, and speak the hardware's memory format.
//
// A block of 2^k bytes begins with words of 32 bits: its size, with bit 0 set if it is free; if it is free, the offsets
// of the previous and next block of its list. What the user gets begins behind the first word. Offsets count from the
// heap's first block. Blocks on `pairs` have no valid previous field, as in the thesis's figure 5.3.
#include "heap.h"

#define FREE_BIT 1U
#define HEADER 4U
#define LARGEST_LOG2 31U

enum in_band_field { SIZE = 0, PREVIOUS = 1, NEXT = 2 };

static uint32_t* words_at(const struct coffer_rt* heap, uint32_t offset) {
  return (uint32_t*)(void*)(heap->base + offset);
}

static uint32_t log2_of(uint32_t size) { return (uint32_t)rt_highest(size); }

static void update_not_empty(struct rt_lists* lists, uint32_t k) {
  const uint32_t bit = (uint32_t)1 << k;
  const bool is_empty = lists->busy[k] == RT_NOTHING && lists->pairs[k] == RT_NOTHING;
  lists->not_empty = is_empty ? lists->not_empty & ~bit : lists->not_empty | bit;
  lists->pairs_exist = lists->pairs[k] == RT_NOTHING ? lists->pairs_exist & ~bit : lists->pairs_exist | bit;
}

// Writes a free block's header and puts it at the head of busy[k].
static void push(struct coffer_rt* heap, uint32_t offset, uint32_t k) {
  struct rt_lists* lists = &heap->u.lists;
  uint32_t* block = words_at(heap, offset);
  block[SIZE] = ((uint32_t)1 << k) | FREE_BIT;
  block[PREVIOUS] = RT_NOTHING;
  block[NEXT] = lists->busy[k];
  if (lists->busy[k] != RT_NOTHING) {
    words_at(heap, lists->busy[k])[PREVIOUS] = offset;
  }
  lists->busy[k] = offset;
  update_not_empty(lists, k);
}

static void unlink(struct coffer_rt* heap, uint32_t offset, uint32_t k) {
  struct rt_lists* lists = &heap->u.lists;
  const uint32_t* block = words_at(heap, offset);
  if (block[PREVIOUS] == RT_NOTHING) {
    lists->busy[k] = block[NEXT];
  } else {
    words_at(heap, block[PREVIOUS])[NEXT] = block[NEXT];
  }
  if (block[NEXT] != RT_NOTHING) {
    words_at(heap, block[NEXT])[PREVIOUS] = block[PREVIOUS];
  }
  update_not_empty(lists, k);
}

// Puts a pair, both marked free, at the head of pairs[k].
static void push_pair(struct coffer_rt* heap, uint32_t left, uint32_t k) {
  struct rt_lists* lists = &heap->u.lists;
  words_at(heap, left)[SIZE] = ((uint32_t)1 << k) | FREE_BIT;
  words_at(heap, left ^ ((uint32_t)1 << k))[SIZE] = ((uint32_t)1 << k) | FREE_BIT;
  words_at(heap, left)[NEXT] = lists->pairs[k];
  lists->pairs[k] = left;
  update_not_empty(lists, k);
}

static uint32_t pop_pair(struct coffer_rt* heap, uint32_t k) {
  struct rt_lists* lists = &heap->u.lists;
  const uint32_t left = lists->pairs[k];
  lists->pairs[k] = words_at(heap, left)[NEXT];
  update_not_empty(lists, k);
  return left;
}

static uint32_t pop(struct coffer_rt* heap, uint32_t k) {
  const uint32_t offset = heap->u.lists.busy[k];
  unlink(heap, offset, k);
  return offset;
}

// A block free at 2^k whose buddy is free at the same size: its whole header says so, for a buddy that is split begins
// with a smaller block, free or not.
static bool is_buddy_free(const struct coffer_rt* heap, uint32_t offset, uint32_t k) {
  const uint32_t size = (uint32_t)1 << k;
  const uint32_t buddy = offset ^ size;
  return buddy < heap->bytes && words_at(heap, buddy)[SIZE] == (size | FREE_BIT);
}

// The heap is smaller than 2 GiB: coffer_rt_init sees to it.
static void in_band_init(struct coffer_rt* heap) {
  struct rt_lists* lists = &heap->u.lists;
  for (uint32_t k = 0; k < 32U; ++k) {
    lists->busy[k] = RT_NOTHING;
    lists->pairs[k] = RT_NOTHING;
  }
  lists->not_empty = 0;
  lists->pairs_exist = 0;
  // The largest blocks first, each at a multiple of its size.
  size_t offset = 0;
  while (offset < heap->bytes) {
    const uint32_t k = log2_of((uint32_t)(heap->bytes - offset));
    push(heap, (uint32_t)offset, k);
    offset += (size_t)1 << k;
  }
}

// The order of a request, or 32 if there is no such block.
static uint32_t order_of(const struct coffer_rt* heap, size_t size) {
  const size_t largest = ((size_t)1 << LARGEST_LOG2) - HEADER;
  uint32_t k = 32;
  if (size <= largest) {
    const uint32_t need = (uint32_t)size + HEADER;
    k = log2_of(need - 1U) + 1U;
    k = k < heap->min_log2 ? heap->min_log2 : k;
  }
  return k;
}

// Gives the right halves of a block of 2^from bytes back till it has 2^to.
static void* cut(struct coffer_rt* heap, uint32_t offset, uint32_t from, uint32_t to) {
  for (uint32_t k = from; k > to; --k) {
    push(heap, offset + ((uint32_t)1 << (k - 1U)), k - 1U);
  }
  words_at(heap, offset)[SIZE] = (uint32_t)1 << to;
  return heap->base + offset + HEADER;
}

static void* knuth_alloc(struct coffer_rt* heap, size_t size) {
  const uint32_t k = order_of(heap, size);
  const uint32_t fitting = k < 32U ? heap->u.lists.not_empty >> k : 0U;
  void* block = NULL;
  if (fitting != 0U) {
    const uint32_t from = k + (uint32_t)rt_lowest(fitting);
    block = cut(heap, pop(heap, from), from, k);
  }
  return block;
}

// From index k single blocks; then a pair of index k - 1 as one block; then from the lowest index above, where singles
// go before pairs.
static void* estranged_alloc(struct coffer_rt* heap, size_t size) {
  struct rt_lists* lists = &heap->u.lists;
  const uint32_t k = order_of(heap, size);
  if (k >= 32U) {
    return NULL;
  }
  const bool has_small_pair = k > heap->min_log2 && ((lists->pairs_exist >> (k - 1U)) & 1U) != 0U;
  const uint32_t fitting = lists->not_empty >> k;
  void* block = NULL;
  if (lists->busy[k] == RT_NOTHING && has_small_pair) {
    const uint32_t left = pop_pair(heap, k - 1U);
    words_at(heap, left + ((uint32_t)1 << (k - 1U)))[SIZE] = 0;  // no block begins here any more
    block = cut(heap, left, k, k);
  } else if (fitting != 0U) {
    const uint32_t from = k + (uint32_t)rt_lowest(fitting);
    uint32_t offset = 0;
    if (lists->busy[from] != RT_NOTHING) {
      offset = pop(heap, from);
    } else {
      offset = pop_pair(heap, from);
      push(heap, offset + ((uint32_t)1 << from), from);
    }
    block = cut(heap, offset, from, k);
  } else {
    // Nothing fits.
  }
  return block;
}

// Finds a live block: its offset and order.
static enum coffer_rt_error find(const struct coffer_rt* heap, const unsigned char* block, uint32_t* offset,
                                 uint32_t* k) {
  const size_t at = (size_t)(block - heap->base);
  const size_t min_mask = ((size_t)1 << heap->min_log2) - 1U;
  if (at < HEADER || ((at - HEADER) & min_mask) != 0U) {
    return COFFER_RT_BAD;
  }
  *offset = (uint32_t)(at - HEADER);
  const uint32_t header = words_at(heap, *offset)[SIZE];
  const uint32_t size = header & ~FREE_BIT;
  if (size <= min_mask || (size & (size - 1U)) != 0U || (*offset & (size - 1U)) != 0U || size > heap->bytes - *offset) {
    return COFFER_RT_BAD;
  }
  *k = log2_of(size);
  return (header & FREE_BIT) != 0U ? COFFER_RT_DOUBLE : COFFER_RT_OK;
}

static enum coffer_rt_error knuth_free(struct coffer_rt* heap, unsigned char* block) {
  uint32_t offset = 0;
  uint32_t k = 0;
  const enum coffer_rt_error error = find(heap, block, &offset, &k);
  if (error == COFFER_RT_OK) {
    while (is_buddy_free(heap, offset, k)) {
      const uint32_t size = (uint32_t)1 << k;
      unlink(heap, offset ^ size, k);
      words_at(heap, offset | size)[SIZE] = 0;  // no block begins here any more
      offset &= ~size;
      ++k;
    }
    push(heap, offset, k);
  }
  return error;
}

// Marks a block of 2^k bytes free: on a list of its own, or with its buddy.
static void estranged_put(struct coffer_rt* heap, uint32_t offset, uint32_t k) {
  if (is_buddy_free(heap, offset, k)) {
    const uint32_t size = (uint32_t)1 << k;
    unlink(heap, offset ^ size, k);
    push_pair(heap, offset & ~size, k);
  } else {
    push(heap, offset, k);
  }
}

static enum coffer_rt_error estranged_free(struct coffer_rt* heap, unsigned char* block) {
  uint32_t offset = 0;
  uint32_t k = 0;
  const enum coffer_rt_error error = find(heap, block, &offset, &k);
  if (error == COFFER_RT_OK) {
    estranged_put(heap, offset, k);
  }
  return error;
}

static void estranged_panic(struct coffer_rt* heap) {
  for (uint32_t k = heap->min_log2; k < LARGEST_LOG2; ++k) {
    while (heap->u.lists.pairs[k] != RT_NOTHING) {
      const uint32_t left = pop_pair(heap, k);
      words_at(heap, left | ((uint32_t)1 << k))[SIZE] = 0;
      estranged_put(heap, left, k + 1U);
    }
  }
}

static size_t in_band_usable_size(const struct coffer_rt* heap, const unsigned char* block) {
  uint32_t offset = 0;
  uint32_t k = 0;
  return find(heap, block, &offset, &k) == COFFER_RT_OK ? ((size_t)1 << k) - HEADER : 0U;
}

static size_t in_band_largest_free(const struct coffer_rt* heap) {
  const struct rt_lists* lists = &heap->u.lists;
  size_t largest = 0;
  if (lists->not_empty != 0U) {
    largest = (size_t)1 << log2_of(lists->not_empty);
  }
  if (lists->pairs_exist != 0U) {
    const size_t pair = (size_t)2 << log2_of(lists->pairs_exist);
    largest = pair > largest ? pair : largest;
  }
  return largest == 0U ? 0U : largest - HEADER;
}

static int in_band_walk(struct coffer_rt* heap, int (*visit)(void* context, void* block, size_t bytes, int is_live),
                        void* context) {
  const size_t min_mask = ((size_t)1 << heap->min_log2) - 1U;
  size_t offset = 0;
  int result = 0;
  while (result == 0 && offset < heap->bytes) {
    const uint32_t header = words_at(heap, (uint32_t)offset)[SIZE];
    const size_t size = header & ~FREE_BIT;
    if (size == 0U || (size & min_mask) != 0U || size > heap->bytes - offset) {
      break;  // damaged: coffer_rt_check says so
    }
    result = visit(context, heap->base + offset + HEADER, size - HEADER, (header & FREE_BIT) != 0U ? 0 : 1);
    offset += size;
  }
  return result;
}

// May a free block of 2^k bytes be here, by its place and header?
static bool is_free_at(const struct coffer_rt* heap, uint32_t offset, uint32_t k) {
  const uint32_t size = (uint32_t)1 << k;
  return k >= heap->min_log2 && offset < heap->bytes && (offset & (size - 1U)) == 0U &&
         words_at(heap, offset)[SIZE] == (size | FREE_BIT);
}

// How many blocks of 2^k bytes are on the lists, with the right header; more than `limit` if a list is damaged.
static size_t listed(const struct coffer_rt* heap, uint32_t k, size_t limit) {
  const struct rt_lists* lists = &heap->u.lists;
  size_t count = 0;
  uint32_t previous = RT_NOTHING;
  for (uint32_t at = lists->busy[k]; at != RT_NOTHING; at = words_at(heap, at)[NEXT]) {
    if (!is_free_at(heap, at, k) || words_at(heap, at)[PREVIOUS] != previous) {
      return limit + 1U;
    }
    previous = at;
    ++count;
  }
  for (uint32_t at = lists->pairs[k]; at != RT_NOTHING && count <= limit; at = words_at(heap, at)[NEXT]) {
    if (!is_free_at(heap, at, k) || !is_buddy_free(heap, at, k)) {
      return limit + 1U;
    }
    count += 2U;
  }
  return count;
}

static enum coffer_rt_error in_band_check(const struct coffer_rt* heap) {
  size_t found[32] = {0};
  size_t offset = 0;
  while (offset < heap->bytes) {
    uint32_t at = 0;
    uint32_t k = 0;
    const enum coffer_rt_error error = find(heap, heap->base + offset + HEADER, &at, &k);
    if (error != COFFER_RT_OK && error != COFFER_RT_DOUBLE) {
      return COFFER_RT_CORRUPT;
    }
    found[k] += error == COFFER_RT_DOUBLE ? 1U : 0U;
    offset += (size_t)1 << k;
  }
  for (uint32_t k = 0; k <= LARGEST_LOG2; ++k) {
    const bool is_listed = ((heap->u.lists.not_empty >> k) & 1U) != 0U;
    if (listed(heap, k, found[k]) != found[k] || is_listed != (found[k] != 0U)) {
      return COFFER_RT_CORRUPT;
    }
  }
  return COFFER_RT_OK;
}

const struct rt_policy coffer_rt_knuth = {
    in_band_init, knuth_alloc, knuth_free, in_band_usable_size, in_band_largest_free, in_band_walk, in_band_check,
    NULL,         NULL,        NULL};
const struct rt_policy coffer_rt_estranged = {in_band_init,
                                              estranged_alloc,
                                              estranged_free,
                                              in_band_usable_size,
                                              in_band_largest_free,
                                              in_band_walk,
                                              in_band_check,
                                              estranged_panic,
                                              NULL,
                                              NULL};
