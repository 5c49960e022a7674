// SPDX-License-Identifier: MIT
/* What a heap in hardware can tell of itself: the unit is asked, headers are read, and the book has what neither has.
 */
#include "coffer_hw_unit.h"

size_t coffer_hw_usable_size(struct coffer_hw* heap, const void* block) {
  uint32_t at = 0;
  uint32_t size = 0;
  coffer_hw_lock(heap);
  if (coffer_hw_find(heap, block, &at) == COFFER_RT_OK && at % COFFER_HW_HEADER == 0U && at < heap->bytes &&
      coffer_hw_settle(heap) == COFFER_RT_OK) {
    size = coffer_hw_size_at(heap, at);
  }
  coffer_hw_unlock(heap);
  return size == 0U ? 0U : size - COFFER_HW_HEADER;
}

/* Nothing larger is there when a block is lent, so it is not cut from one, and comes back as what it was. */
static size_t largest_free(struct coffer_hw* heap) {
  for (uint32_t size = heap->bytes; size >> heap->min_log2 != 0U; size /= 2U) {
    uint32_t block = 0;
    uint32_t answer = 0;
    const unsigned status = coffer_hw_call(heap, REG_ALLOC, size - COFFER_HW_HEADER, &block);
    if (status == STATUS_OK) {
      (void)coffer_hw_call(heap, REG_FREE, block, &answer);
      return size - COFFER_HW_HEADER;
    }
    if (status != STATUS_FULL) {
      (void)coffer_hw_report(heap, coffer_hw_error_of(status), NULL);
      return 0U;
    }
  }
  return 0U;
}

size_t coffer_hw_largest_free(struct coffer_hw* heap) {
  coffer_hw_lock(heap);
  const size_t size = largest_free(heap);
  coffer_hw_unlock(heap);
  return size;
}

/* The next live block from an offset on, or the heap's end. */
static uint32_t next_live(const struct coffer_hw* heap, uint32_t at) {
  const uint32_t step = (uint32_t)1 << heap->min_log2;
  while (at < heap->bytes && !coffer_hw_is_live(heap, at)) {
    /* Eight that are not live at a time. */
    const uint32_t unit = at >> heap->min_log2;
    at += unit % 8U == 0U && ((const unsigned char*)heap->options.book)[unit / 8U] == 0U ? 8U * step : step;
  }
  return at < heap->bytes ? at : heap->bytes;
}

/* Free bytes from `at` to `end`, as the largest blocks that there can be. */
static int visit_free(const struct coffer_hw* heap, uint32_t at, uint32_t end,
                      int (*visit)(void* context, void* block, size_t bytes, int is_live), void* context) {
  int result = 0;
  while (result == 0 && at < end) {
    uint32_t size = (uint32_t)1 << heap->min_log2;
    while ((at & size) == 0U && at + 2U * (size_t)size <= end) {
      size *= 2U;
    }
    result = visit(context, heap->heap + at + COFFER_HW_HEADER, size - COFFER_HW_HEADER, 0);
    at += size;
  }
  return result;
}

static int walk(struct coffer_hw* heap, int (*visit)(void* context, void* block, size_t bytes, int is_live),
                void* context, enum coffer_rt_error* error) {
  *error = heap->options.book == NULL ? COFFER_RT_ARGUMENT : coffer_hw_settle(heap);
  int result = 0;
  for (uint32_t at = 0; *error == COFFER_RT_OK && result == 0 && at < heap->bytes;) {
    const uint32_t live = next_live(heap, at);
    const uint32_t size = live < heap->bytes ? coffer_hw_size_at(heap, live) : 0U;
    /* A damaged header, or two blocks of which one reaches into the other. */
    if (live < heap->bytes && (size == 0U || next_live(heap, live + ((uint32_t)1 << heap->min_log2)) < live + size)) {
      *error = COFFER_RT_CORRUPT;
    } else {
      result = visit_free(heap, at, live, visit, context);
      if (result == 0 && size != 0U) {
        result = visit(context, heap->heap + live + COFFER_HW_HEADER, size - COFFER_HW_HEADER, 1);
      }
      at = live + size;
    }
  }
  return *error == COFFER_RT_OK ? result : -1;
}

int coffer_hw_walk(struct coffer_hw* heap, int (*visit)(void* context, void* block, size_t bytes, int is_live),
                   void* context) {
  enum coffer_rt_error error = COFFER_RT_OK;
  coffer_hw_lock(heap);
  const int result = walk(heap, visit, context, &error);
  (void)coffer_hw_report(heap, error, NULL);
  coffer_hw_unlock(heap);
  return result;
}

static int add_live(void* context, void* block, size_t bytes, int is_live) {
  struct coffer_rt_stats* stats = (struct coffer_rt_stats*)context;
  (void)block;
  if (is_live != 0) {
    stats->live_bytes += bytes;
    ++stats->live_blocks;
  }
  return 0;
}

enum coffer_rt_error coffer_hw_stats(struct coffer_hw* heap, struct coffer_rt_stats* stats) {
  enum coffer_rt_error error = COFFER_RT_OK;
  coffer_hw_lock(heap);
  stats->region_bytes = heap->region_bytes;
  stats->heap_bytes = heap->bytes;
  stats->metadata_bytes = heap->region_bytes - heap->bytes;
  stats->live_bytes = 0;
  stats->live_blocks = 0;
  stats->alignment = heap->options.alignment;
  stats->largest_free = largest_free(heap);
  (void)walk(heap, add_live, stats, &error);
  (void)coffer_hw_report(heap, error, NULL);
  coffer_hw_unlock(heap);
  return error;
}

static int visit_nothing(void* context, void* block, size_t bytes, int is_live) {
  (void)context;
  (void)block;
  (void)bytes;
  (void)is_live;
  return 0;
}

enum coffer_rt_error coffer_hw_check(struct coffer_hw* heap) {
  coffer_hw_lock(heap);
  enum coffer_rt_error error = coffer_hw_settle(heap);
  if (error == COFFER_RT_OK &&
      (coffer_hw_read(heap, REG_ID) != COFFER_HW_ID || coffer_hw_read(heap, REG_HEAP) != heap->bytes ||
       coffer_hw_read(heap, REG_BASE) != heap->bus_heap ||
       (coffer_hw_read(heap, REG_STATUS) & COFFER_HW_REFUSED) != 0U)) {
    error = COFFER_RT_CORRUPT;
  }
  if (error == COFFER_RT_OK && heap->options.book != NULL) {
    (void)walk(heap, visit_nothing, NULL, &error);
  }
  (void)coffer_hw_report(heap, error, NULL);
  coffer_hw_unlock(heap);
  return error;
}
