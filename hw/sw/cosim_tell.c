// SPDX-License-Identifier: MIT
// What a heap tells of itself, against the map of what is taken; and heaps that are damaged, or aligned.
#include <string.h>

#include "cosim.h"

// A walk, beside the map.
struct seen {
  const struct run* run;
  size_t at;
  size_t live_bytes;
  size_t live_blocks;
  int visits;
};

static int see(void* context, void* block, size_t bytes, int is_live) {
  struct seen* seen = context;
  const struct run* run = seen->run;
  const size_t at = (size_t)((unsigned char*)block - run->heap->heap) - 4U;
  const size_t size = bytes + 4U;
  expect(at == seen->at && size >= UNIT && at % size == 0U && at + size <= HEAP, "a walk leaves something out", at);
  expect((memchr(&run->taken[at], !is_live, size) == NULL) == 1, "what is walked is not so", at);
  seen->at += size;
  seen->live_bytes += is_live != 0 ? bytes : 0U;
  seen->live_blocks += is_live != 0 ? 1U : 0U;
  ++seen->visits;
  return 0;
}

static int stop_at_second(void* context, void* block, size_t bytes, int is_live) {
  (void)block;
  (void)bytes;
  (void)is_live;
  return ++*(int*)context == 2 ? 7 : 0;
}

// The largest aligned run of bytes that nobody has.
static size_t largest_of(const struct run* run) {
  for (size_t bytes = HEAP; bytes >= UNIT; bytes /= 2U) {
    for (size_t at = 0; at < HEAP; at += bytes) {
      if (memchr(&run->taken[at], 1, bytes) == NULL) {
        return bytes - 4U;
      }
    }
  }
  return 0;
}

void check_told(const struct run* run, unsigned long number) {
  struct seen seen = {run, 0, 0, 0, 0};
  struct coffer_rt_stats stats;
  size_t live_blocks = 0;
  size_t live_bytes = 0;
  for (unsigned slot = 0; slot < BLOCKS; ++slot) {
    live_blocks += run->blocks[slot] != NULL ? 1U : 0U;
    live_bytes += run->blocks[slot] != NULL ? run->sizes[slot] - 4U : 0U;
  }
  const size_t largest = largest_of(run);
  expect(coffer_hw_largest_free(run->heap) == largest, "not the largest free block", number);
  expect(run->model == NULL || coffer_rt_largest_free(run->model) == largest, "nor is it the model's", number);
  expect(coffer_hw_check(run->heap) == COFFER_RT_OK, "a heap that is whole", number);
  const unsigned long told = g_counts.told;
  const enum coffer_rt_error error = coffer_hw_stats(run->heap, &stats);
  expect(stats.heap_bytes == HEAP && stats.region_bytes == HEAP + SPARE - 4U &&
             stats.metadata_bytes == stats.region_bytes - HEAP && stats.largest_free == largest &&
             stats.alignment == run->heap->options.alignment,
         "stats", number);
  if (run->heap->options.book == NULL) {
    expect(error == COFFER_RT_ARGUMENT && stats.live_blocks == 0U && stats.live_bytes == 0U, "live without a book",
           number);
    expect(coffer_hw_walk(run->heap, see, &seen) == -1 && seen.visits == 0 && g_counts.told == told + 2U &&
               g_counts.last == COFFER_RT_ARGUMENT,
           "a walk without a book", number);
    return;
  }
  expect(error == COFFER_RT_OK && stats.live_blocks == live_blocks && stats.live_bytes == live_bytes, "what is live",
         number);
  expect(coffer_hw_walk(run->heap, see, &seen) == 0 && seen.at == HEAP && seen.live_bytes == live_bytes &&
             seen.live_blocks == live_blocks,
         "a walk", number);
  int visits = 0;
  expect(seen.visits < 2 || coffer_hw_walk(run->heap, stop_at_second, &visits) == 7, "a walk that is stopped", number);
}

// With a book: what headers cannot tell, and headers that are damaged.
void check_book(struct coffer_hw* heap) {
  unsigned char book[HEAP / 128U + 1U];
  struct coffer_rt_stats stats;
  memset(book, 0xFF, sizeof(book));
  expect(open_heap(heap, 16, 0, book) == heap, "a heap with a book", 0);
  unsigned char* first = coffer_hw_alloc(heap, 60);
  unsigned char* second = coffer_hw_alloc(heap, 60);
  expect(first != NULL && second != NULL && coffer_hw_check(heap) == COFFER_RT_OK, "two blocks", 0);
  const uint32_t header = load(first - 4);
  // The program writes within its block what looks like a live block's header.
  store(first + 12, 16U | (header & 1U));
  expect(coffer_hw_usable_size(heap, first + 16) == 0U && coffer_hw_free(heap, first + 16) == COFFER_RT_BAD,
         "a header of the program's own", 0);
  const uint32_t damaged[] = {0, header ^ 1U, header * 2U, 48U, header | 2U, 0xFFFFFFFFU};
  for (unsigned i = 0; i < sizeof(damaged) / sizeof(damaged[0]); ++i) {
    store(first - 4, damaged[i]);
    const int is_other_size = damaged[i] == header * 2U && (first - 4 - heap->heap) % 128 != 0;
    expect(is_other_size || coffer_hw_check(heap) == COFFER_RT_CORRUPT, "a damaged header", i);
    expect(is_other_size || (coffer_hw_stats(heap, &stats) == COFFER_RT_CORRUPT && g_counts.last == COFFER_RT_CORRUPT),
           "and its stats", i);
    expect(coffer_hw_realloc(heap, first, 4000) == NULL, "and its realloc", i);
  }
  store(first - 4, header);
  expect(coffer_hw_check(heap) == COFFER_RT_OK, "a mended header", 0);
  expect(coffer_hw_free(heap, first) == COFFER_RT_OK && coffer_hw_free(heap, second) == COFFER_RT_OK, "both", 0);
  expect(coffer_hw_free(heap, first) == COFFER_RT_DOUBLE && coffer_hw_free(heap, first + 16) == COFFER_RT_DOUBLE,
         "free memory", 0);
  expect(coffer_hw_realloc(heap, first, 8) == NULL && g_counts.last == COFFER_RT_DOUBLE, "realloc of free memory", 0);
  unsigned char* grown = coffer_hw_realloc(heap, NULL, 8);
  expect(grown != NULL && coffer_hw_realloc(heap, grown, 0) == grown && coffer_hw_free(heap, grown) == COFFER_RT_OK,
         "realloc of nothing, and to nothing", 0);
}

void check_aligned(void) {
  struct coffer_hw heap;
  for (size_t most = 4; most <= 1024U; most *= 4U) {
    expect(open_heap(&heap, most, 0, NULL) == &heap && coffer_hw_bytes(&heap) == HEAP, "an aligned heap", most);
    for (size_t alignment = 1; alignment <= most; alignment *= 2U) {
      for (size_t size = 0; size <= 300U; size += 100U) {
        unsigned char* block = coffer_hw_alloc_aligned(&heap, alignment, size);
        expect(block != NULL && (uintptr_t)block % alignment == 0U && coffer_hw_usable_size(&heap, block) >= size,
               "an aligned block", alignment);
        unsigned char* other = coffer_hw_alloc_aligned(&heap, alignment, size);
        expect(other != NULL && (uintptr_t)other % alignment == 0U, "another", alignment);
        expect(coffer_hw_free(&heap, block) == COFFER_RT_OK && coffer_hw_free(&heap, other) == COFFER_RT_OK, "frees",
               0);
      }
    }
    const unsigned long told = g_counts.told;
    expect(coffer_hw_alloc_aligned(&heap, 2U * most, 8) == NULL && coffer_hw_alloc_aligned(&heap, 0, 8) == NULL &&
               coffer_hw_alloc_aligned(&heap, 3, 8) == NULL && g_counts.told == told + 3U &&
               g_counts.last == COFFER_RT_ARGUMENT,
           "what cannot be aligned", most);
  }
}
