// SPDX-License-Identifier: MIT
/* Blocks: lent, given back, found again; and which are live. */
#include "coffer_hw_unit.h"

int coffer_hw_is_live(const struct coffer_hw* heap, uint32_t at) {
  const uint32_t unit = at >> heap->min_log2;
  return (((const unsigned char*)heap->options.book)[unit / 8U] >> (unit % 8U) & 1U) != 0U;
}

/* Notes that the block at an offset is live, or is not. */
static void note(const struct coffer_hw* heap, uint32_t at, int is_live) {
  unsigned char* book = (unsigned char*)heap->options.book;
  if (book != NULL) {
    const uint32_t unit = at >> heap->min_log2;
    const unsigned bit = 1U << (unit % 8U);
    book[unit / 8U] = (unsigned char)(is_live != 0 ? book[unit / 8U] | bit : book[unit / 8U] & ~bit);
  }
}

enum coffer_rt_error coffer_hw_settle(struct coffer_hw* heap) {
  uint32_t answer = 0;
  if (heap->bytes == 0U && heap->is_lost == 0) {
    return COFFER_RT_ARGUMENT;
  }
  /* No unit has an index 31, and none takes a call, though it will refuse it, before the last one's header is written.
   */
  const unsigned status = coffer_hw_call(heap, REG_MARKS, 31U, &answer);
  return status == STATUS_BAD ? COFFER_RT_OK : COFFER_RT_CORRUPT;
}

uint32_t coffer_hw_size_at(const struct coffer_hw* heap, uint32_t at) {
  const uint32_t header = coffer_hw_load(heap, at);
  const uint32_t size = header & ~(uint32_t)1;
  const int is_right = size >> heap->min_log2 != 0U && (size & (size - 1U)) == 0U && (at & (size - 1U)) == 0U &&
                       size <= heap->bytes && (header & 1U) == heap->live_bit;
  return is_right ? size : 0U;
}

/* Is this, where no live block begins, within one? One of 2^k bytes begins at a multiple of 2^k. */
static int is_inside(const struct coffer_hw* heap, uint32_t at) {
  for (uint32_t size = (uint32_t)1 << heap->min_log2; size <= heap->bytes; size *= 2U) {
    const uint32_t start = at & ~(size - 1U);
    if (coffer_hw_is_live(heap, start) && coffer_hw_size_at(heap, start) > at - start) {
      return 1;
    }
  }
  return 0;
}

enum coffer_rt_error coffer_hw_find(struct coffer_hw* heap, const void* block, uint32_t* at) {
  const uintptr_t offset = (uintptr_t)block - (uintptr_t)heap->heap;
  if (heap->is_lost != 0) {
    return COFFER_RT_CORRUPT;
  }
  if (heap->bytes == 0U) {
    return COFFER_RT_ARGUMENT;
  }
  if (offset >= heap->bytes) {
    return COFFER_RT_FOREIGN;
  }
  *at = (uint32_t)offset - COFFER_HW_HEADER;
  if (heap->options.book == NULL) {
    return COFFER_RT_OK; /* the unit looks at the header */
  }
  if (offset < COFFER_HW_HEADER || (*at & (((uint32_t)1 << heap->min_log2) - 1U)) != 0U) {
    return COFFER_RT_BAD;
  }
  if (coffer_hw_is_live(heap, *at)) {
    return COFFER_RT_OK;
  }
  const enum coffer_rt_error error = coffer_hw_settle(heap);
  if (error != COFFER_RT_OK) {
    return error;
  }
  return is_inside(heap, *at) ? COFFER_RT_BAD : COFFER_RT_DOUBLE;
}

/* The calls within the lock. */
static unsigned char* take(struct coffer_hw* heap, size_t size) {
  uint32_t answer = 0;
  /* More than a register holds is more than any heap has. */
  const unsigned status = size <= UINT32_MAX ? coffer_hw_call(heap, REG_ALLOC, (uint32_t)size, &answer) : STATUS_FULL;
  if (status == STATUS_OK) {
    note(heap, answer - heap->bus_heap - COFFER_HW_HEADER, 1);
    return heap->heap + (answer - heap->bus_heap);
  }
  /* That there is no room is no error: NULL says it. */
  if (status != STATUS_FULL) {
    (void)coffer_hw_report(heap, coffer_hw_error_of(status), NULL);
  }
  return NULL;
}

static enum coffer_rt_error give_back(struct coffer_hw* heap, const void* block) {
  uint32_t at = 0;
  uint32_t answer = 0;
  enum coffer_rt_error error = coffer_hw_find(heap, block, &at);
  if (error == COFFER_RT_OK) {
    error = coffer_hw_error_of(coffer_hw_call(heap, REG_FREE, heap->bus_heap + at + COFFER_HW_HEADER, &answer));
    if (error == COFFER_RT_OK) {
      note(heap, at, 0);
    }
  }
  return coffer_hw_report(heap, error, block);
}

void* coffer_hw_alloc(struct coffer_hw* heap, size_t size) {
  coffer_hw_lock(heap);
  unsigned char* block = take(heap, size);
  coffer_hw_unlock(heap);
  return block;
}

void* coffer_hw_alloc_aligned(struct coffer_hw* heap, size_t alignment, size_t size) {
  unsigned char* block = NULL;
  coffer_hw_lock(heap);
  if (alignment == 0U || (alignment & (alignment - 1U)) != 0U || alignment > heap->options.alignment) {
    (void)coffer_hw_report(heap, COFFER_RT_ARGUMENT, NULL);
  } else {
    /* Blocks are aligned to their size. */
    const size_t least = alignment > COFFER_HW_HEADER ? alignment - COFFER_HW_HEADER : 0U;
    block = take(heap, size < least ? least : size);
  }
  coffer_hw_unlock(heap);
  return block;
}

enum coffer_rt_error coffer_hw_free(struct coffer_hw* heap, void* block) {
  if (block == NULL) {
    return COFFER_RT_OK;
  }
  coffer_hw_lock(heap);
  const enum coffer_rt_error error = give_back(heap, block);
  coffer_hw_unlock(heap);
  return error;
}

/* A copy of the words of a block of `bytes` bytes, which are a multiple of words. */
static void copy(const struct coffer_hw* heap, unsigned char* to, const unsigned char* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(uint32_t)) {
    coffer_hw_store(heap, (uint32_t)(to - heap->heap + (ptrdiff_t)i),
                    coffer_hw_load(heap, (uint32_t)(from - heap->heap + (ptrdiff_t)i)));
  }
}

static unsigned char* resize(struct coffer_hw* heap, unsigned char* block, size_t size) {
  uint32_t at = 0;
  enum coffer_rt_error error = coffer_hw_find(heap, block, &at);
  if (error == COFFER_RT_OK) {
    error = coffer_hw_settle(heap);
  }
  if (error == COFFER_RT_OK &&
      (at % COFFER_HW_HEADER != 0U || at >= heap->bytes || coffer_hw_size_at(heap, at) == 0U)) {
    error = COFFER_RT_BAD;
  }
  if (error != COFFER_RT_OK) {
    (void)coffer_hw_report(heap, error, block);
    return NULL;
  }
  const size_t old_size = coffer_hw_size_at(heap, at) - COFFER_HW_HEADER;
  if (size <= old_size) {
    return block;
  }
  unsigned char* moved = take(heap, size);
  if (moved != NULL) {
    copy(heap, moved, block, old_size);
    (void)give_back(heap, block);
  }
  return moved;
}

void* coffer_hw_realloc(struct coffer_hw* heap, void* block, size_t size) {
  coffer_hw_lock(heap);
  unsigned char* moved = block == NULL ? take(heap, size) : resize(heap, (unsigned char*)block, size);
  coffer_hw_unlock(heap);
  return moved;
}
