// SPDX-License-Identifier: MIT
// A sequential first-fit list: free blocks in order of address, joined with their neighbours when they are freed. Its
// calls take time in proportion to the number of free blocks; it is here to be compared with.
//
// A block begins with two words of 32 bits: its size, header included, and the offset of the next free block or, in a
// live block, a mark.
#include "heap.h"

#define HEADER 8U
#define LIVE_MARK 0xFFFFFFFEU

enum first_fit_field { SIZE = 0, NEXT = 1 };

static uint32_t* words_at(const struct coffer_rt* heap, uint32_t offset) {
  return (uint32_t*)(void*)(heap->base + offset);
}

// The list's head is busy[0].
static uint32_t* head_of(struct coffer_rt* heap) { return &heap->u.lists.busy[0]; }

static void first_fit_init(struct coffer_rt* heap) {
  words_at(heap, 0)[SIZE] = (uint32_t)heap->bytes;
  words_at(heap, 0)[NEXT] = RT_NOTHING;
  *head_of(heap) = 0;
}

static void* first_fit_alloc(struct coffer_rt* heap, size_t size) {
  const size_t min_block = (size_t)1 << heap->min_log2;
  if (size > 0x7FFFFFFFU) {
    return NULL;
  }
  const uint32_t need = (uint32_t)((size + HEADER + min_block - 1U) & ~(min_block - 1U));
  uint32_t* link = head_of(heap);
  while (*link != RT_NOTHING && words_at(heap, *link)[SIZE] < need) {
    link = &words_at(heap, *link)[NEXT];
  }
  void* result = NULL;
  if (*link != RT_NOTHING) {
    const uint32_t offset = *link;
    uint32_t* block = words_at(heap, offset);
    if (block[SIZE] > need) {
      uint32_t* rest = words_at(heap, offset + need);
      rest[SIZE] = block[SIZE] - need;
      rest[NEXT] = block[NEXT];
      *link = offset + need;
    } else {
      *link = block[NEXT];
    }
    block[SIZE] = need;
    block[NEXT] = LIVE_MARK;
    result = heap->base + offset + HEADER;
  }
  return result;
}

static enum coffer_rt_error find(const struct coffer_rt* heap, const unsigned char* block, uint32_t* offset) {
  const size_t at = (size_t)(block - heap->base);
  const size_t min_mask = ((size_t)1 << heap->min_log2) - 1U;
  if (at < HEADER || ((at - HEADER) & min_mask) != 0U) {
    return COFFER_RT_BAD;
  }
  *offset = (uint32_t)(at - HEADER);
  const uint32_t* words = words_at(heap, *offset);
  const bool is_live = words[NEXT] == LIVE_MARK && words[SIZE] > min_mask && words[SIZE] <= heap->bytes - *offset;
  return is_live ? COFFER_RT_OK : COFFER_RT_BAD;
}

static void join(struct coffer_rt* heap, uint32_t left) {
  uint32_t* block = words_at(heap, left);
  if (block[NEXT] == left + block[SIZE]) {
    const uint32_t* right = words_at(heap, block[NEXT]);
    block[SIZE] += right[SIZE];
    block[NEXT] = right[NEXT];
  }
}

static enum coffer_rt_error first_fit_free(struct coffer_rt* heap, unsigned char* block) {
  uint32_t offset = 0;
  const enum coffer_rt_error error = find(heap, block, &offset);
  if (error == COFFER_RT_OK) {
    uint32_t before = RT_NOTHING;
    uint32_t after = *head_of(heap);
    while (after < offset) {
      before = after;
      after = words_at(heap, after)[NEXT];
    }
    words_at(heap, offset)[NEXT] = after;
    if (before == RT_NOTHING) {
      *head_of(heap) = offset;
    } else {
      words_at(heap, before)[NEXT] = offset;
    }
    join(heap, offset);
    if (before != RT_NOTHING) {
      join(heap, before);
    }
  }
  return error;
}

static size_t first_fit_usable_size(const struct coffer_rt* heap, const unsigned char* block) {
  uint32_t offset = 0;
  return find(heap, block, &offset) == COFFER_RT_OK ? words_at(heap, offset)[SIZE] - HEADER : 0U;
}

static size_t first_fit_largest_free(const struct coffer_rt* heap) {
  size_t largest = 0;
  for (uint32_t at = heap->u.lists.busy[0]; at != RT_NOTHING; at = words_at(heap, at)[NEXT]) {
    const size_t size = words_at(heap, at)[SIZE] - HEADER;
    largest = size > largest ? size : largest;
  }
  return largest;
}

static int first_fit_walk(struct coffer_rt* heap, int (*visit)(void* context, void* block, size_t bytes, int is_live),
                          void* context) {
  const size_t min_mask = ((size_t)1 << heap->min_log2) - 1U;
  size_t offset = 0;
  int result = 0;
  while (result == 0 && offset < heap->bytes) {
    const uint32_t* block = words_at(heap, (uint32_t)offset);
    if (block[SIZE] == 0U || (block[SIZE] & min_mask) != 0U || block[SIZE] > heap->bytes - offset) {
      break;  // damaged: coffer_rt_check says so
    }
    result = visit(context, heap->base + offset + HEADER, block[SIZE] - HEADER, block[NEXT] == LIVE_MARK ? 1 : 0);
    offset += block[SIZE];
  }
  return result;
}

// The list and the blocks in memory agree: each block is live, or the next one of the list.
static enum coffer_rt_error first_fit_check(const struct coffer_rt* heap) {
  const size_t min_mask = ((size_t)1 << heap->min_log2) - 1U;
  size_t offset = 0;
  uint32_t next = heap->u.lists.busy[0];
  while (offset < heap->bytes) {
    const uint32_t* block = words_at(heap, (uint32_t)offset);
    if (block[SIZE] == 0U || (block[SIZE] & min_mask) != 0U || block[SIZE] > heap->bytes - offset) {
      return COFFER_RT_CORRUPT;
    }
    if (block[NEXT] != LIVE_MARK) {
      if (next != offset) {
        return COFFER_RT_CORRUPT;
      }
      next = block[NEXT];
    }
    offset += block[SIZE];
  }
  return next == RT_NOTHING ? COFFER_RT_OK : COFFER_RT_CORRUPT;
}

const struct rt_policy coffer_rt_first_fit = {first_fit_init,
                                              first_fit_alloc,
                                              first_fit_free,
                                              first_fit_usable_size,
                                              first_fit_largest_free,
                                              first_fit_walk,
                                              first_fit_check,
                                              NULL,
                                              NULL,
                                              NULL};
