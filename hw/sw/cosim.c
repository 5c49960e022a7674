// SPDX-License-Identifier: MIT
// cosim REQUESTS ANSWERS SEED CALLS MODEL BOOK: the driver against a simulated unit (hw/tb/tb_driver.vhd), through two
// pipes.
//
// MODEL is `knuth`, and each answer and error must be that of coffer-rt's in-band model; `joins`, and a request is
// refused only if it does not fit; or `posted`, of a unit that joins and answers frees before they are done. BOOK 1:
// the driver keeps a book. Ends with 0 and a line of counts, or with 1 and what is wrong.
#include "cosim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What init must refuse.
static void check_init(void) {
  struct coffer_hw heap;
  unsigned char book[HEAP / 128U + 1U];
  struct coffer_hw_bus blind = g_bus;
  struct coffer_hw_options options = {.bus = &g_bus};
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, NULL) == NULL, "no registers", 0);
  expect(coffer_hw_init(NULL, NULL, window(0), HEAP, &options) == NULL, "no state", 0);
  expect(coffer_hw_init(&heap, NULL, NULL, HEAP, &options) == NULL, "no region", 0);
  expect(coffer_hw_init(&heap, NULL, window(0), 15, &options) == NULL, "a region too small", 0);
  expect(coffer_hw_init(&heap, NULL, window(1), HEAP, &options) != NULL && heap.bus_heap == WINDOW + 4U,
         "a region that begins within a word", 0);
  options.bus_address = WINDOW + 2U;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) == NULL, "an address within a word", 0);
  options.bus_address = UINT32_MAX - 3U;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) == NULL, "beyond the last address", 0);
  // The unit writes elsewhere than the processor reads.
  options.bus_address = WINDOW + 64U;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) == NULL, "two memories", 0);
  options.bus_address = 0;
  options.alignment = 24;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) == NULL, "alignment", 0);
  options.alignment = 8192;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) == NULL, "alignment", 0);
  options.alignment = 16;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) != NULL && coffer_hw_bytes(&heap) == HEAP / 2U,
         "alignment costs what it says", 0);
  options.book = book;
  options.book_bytes = HEAP / 256U;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) == NULL, "too small a book", 0);
  options.book = NULL;
  blind.store = NULL;
  options.bus = &blind;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) == NULL, "loads without stores", 0);
  options.bus = &g_bus;
  options.lock = options.unlock = NULL;
  options.lock = (void (*)(void*))(uintptr_t)1;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) == NULL, "one hook of two", 0);
}

static struct coffer_rt* make_model(void) {
  static unsigned char region[4U * HEAP];
  memset(region, 0, sizeof(region));
  const struct coffer_rt_options options = {.policy = COFFER_RT_KNUTH};
  struct coffer_rt* model = coffer_rt_init(region, sizeof(region), &options);
  expect(model != NULL && model->bytes >= HEAP, "no model", 0);
  // The hardware's heap is one block.
  model->bytes = HEAP;
  memset(model->base, 0, HEAP);
  model->policy->init(model);
  // As the driver does: what lending a block leaves in memory is there in both.
  expect(coffer_rt_alloc(model, 0) != NULL, "no model", 0);
  model->policy->init(model);
  return model;
}

// What is wrong whatever the unit is, but that frees are answered when they are done.
static void check_errors(struct coffer_hw* heap, int is_posted) {
  unsigned char* block = coffer_hw_alloc(heap, 20);
  const int knows = !is_posted || heap->options.book != NULL;
  expect(block != NULL, "an empty heap", 0);
  expect(coffer_hw_free(heap, NULL) == COFFER_RT_OK, "NULL", 0);
  expect(!knows || coffer_hw_free(heap, block + 4) == COFFER_RT_BAD, "within a block", 0);
  expect(coffer_hw_free(heap, heap->heap - 1) == COFFER_RT_FOREIGN, "in front of the heap", 0);
  expect(coffer_hw_free(heap, heap->heap + HEAP) == COFFER_RT_FOREIGN, "behind the heap", 0);
  expect(coffer_hw_realloc(heap, heap->heap + HEAP, 8) == NULL && g_counts.last == COFFER_RT_FOREIGN, "realloc of it",
         0);
  expect(coffer_hw_realloc(heap, block + 4, 8) == NULL && g_counts.last == COFFER_RT_BAD, "realloc within a block", 0);
  expect(coffer_hw_realloc(heap, block, HEAP) == NULL && coffer_hw_usable_size(heap, block) == 28U,
         "what cannot grow stays", 0);
  expect(coffer_hw_usable_size(heap, NULL) == 0U && coffer_hw_usable_size(heap, heap->heap) == 0U, "no block's size",
         0);
  expect(coffer_hw_free(heap, block) == COFFER_RT_OK, "a block", 0);
  expect(!knows || coffer_hw_free(heap, block) == COFFER_RT_DOUBLE, "a block twice", 0);
  expect(coffer_hw_alloc(heap, SIZE_MAX) == NULL && coffer_hw_alloc(heap, UINT32_MAX) == NULL, "too much", 0);
  expect(coffer_hw_late(heap) == COFFER_RT_OK, "nothing is late", 0);
  if (!knows) {
    expect(coffer_hw_free(heap, block) == COFFER_RT_OK && coffer_hw_check(heap) == COFFER_RT_OK &&
               coffer_hw_late(heap) == COFFER_RT_DOUBLE && coffer_hw_late(heap) == COFFER_RT_OK,
           "a posted free is told late", 0);
  }
  expect(coffer_hw_marks(heap, 3, 1, 2) == COFFER_RT_ARGUMENT, "no such index", 0);
  expect(coffer_hw_marks(heap, 4, 300, 300) == COFFER_RT_ARGUMENT, "no such marks", 0);
}

// Memory refuses: told, nothing hangs, and init mends it.
static void check_faults(struct coffer_hw* heap) {
  struct coffer_rt_stats stats;
  expect(open_heap(heap, 4, 0, NULL) == heap, "a heap to be denied", 0);
  unsigned char* block = coffer_hw_alloc(heap, 20);
  (void)ask('d', 1, 0);
  (void)coffer_hw_free(heap, block);
  expect(coffer_hw_check(heap) == COFFER_RT_CORRUPT, "a fault is told", 0);
  expect(coffer_hw_alloc(heap, 20) == NULL && g_counts.last == COFFER_RT_CORRUPT, "nothing is given out", 0);
  (void)ask('d', 0, 0);
  expect(coffer_hw_alloc(heap, 20) == NULL && coffer_hw_largest_free(heap) == 0U, "nor later", 0);
  expect(open_heap(heap, 4, 0, NULL) == heap && coffer_hw_alloc(heap, 20) != NULL, "a new heap", 0);
  coffer_hw_close(heap);
  expect(coffer_hw_alloc(heap, 20) == NULL && coffer_hw_bytes(heap) == 0U, "closed", 0);
  expect(coffer_hw_free(heap, block) == COFFER_RT_ARGUMENT, "closed, and a free", 0);
  expect(coffer_hw_realloc(heap, block, 8) == NULL && g_counts.last == COFFER_RT_ARGUMENT, "closed, and a realloc", 0);
  expect(coffer_hw_usable_size(heap, block) == 0U && coffer_hw_largest_free(heap) == 0U &&
             coffer_hw_check(heap) == COFFER_RT_ARGUMENT && coffer_hw_stats(heap, &stats) == COFFER_RT_ARGUMENT,
         "closed, and asked", 0);
  struct coffer_hw_options options = {.bus = &g_bus, .patience = 1};
  // Once asked is too little for an init that cuts nothing, but takes its time.
  expect(coffer_hw_init(heap, NULL, window(0), HEAP, &options) == NULL || heap->is_lost == 0, "patience", 0);
}

int main(int argc, char** argv) {
  if (argc != 7) {
    (void)fprintf(stderr, "usage: cosim REQUESTS ANSWERS SEED CALLS knuth|joins|posted 0|1\n");
    return 2;
  }
  open_pipes(argv[1], argv[2]);
  const int has_model = strcmp(argv[5], "knuth") == 0;
  static struct run run;
  static unsigned char book[HEAP / 128U + 1U];
  struct coffer_hw heap;
  void* its_book = strcmp(argv[6], "1") == 0 ? book : NULL;
  check_init();
  for (int waits = 0; waits < 2; ++waits) {
    const size_t alignment = waits != 0 ? 16U : 4U;
    expect(open_heap(&heap, alignment, waits, its_book) == &heap && coffer_hw_bytes(&heap) == HEAP, "no heap", 0);
    check_errors(&heap, strcmp(argv[5], "posted") == 0);
    expect(open_heap(&heap, alignment, waits, its_book) == &heap, "no second heap", 0);
    run.heap = &heap;
    run.model = has_model ? make_model() : NULL;
    run.joins = 1;
    run_calls(&run, (unsigned)strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
  }
  check_book(&heap);
  check_aligned();
  check_faults(&heap);
  expect(g_counts.refused == 0U, "the bus has refused an access", g_counts.refused);
  expect(g_counts.locks == g_counts.unlocks && g_counts.locks != 0U, "locks", g_counts.locks - g_counts.unlocks);
  printf("cosim: %lu allocations, %lu refused, %lu wrong frees, %lu resized, %lu moved\n", run.allocations, run.refused,
         run.wrong_frees, run.resized, run.moved);
  return 0;
}
