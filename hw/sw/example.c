// SPDX-License-Identifier: MIT
// A program with its heap in hardware, beside the simulation: on a processor, options.bus goes, and the registers'
// address comes in its place. driver.md says how it is run.
#include <inttypes.h>
#include <stdio.h>

#include "cosim.h"

int main(int argc, char** argv) {
  static unsigned char book[HEAP / 128U + 1U];
  const struct coffer_hw_options options = {.bus = &g_bus, .alignment = 16, .book = book, .book_bytes = sizeof(book)};
  struct coffer_hw heap;
  struct coffer_rt_stats stats;
  if (argc != 3) {
    (void)fprintf(stderr, "usage: example REQUESTS ANSWERS\n");
    return 2;
  }
  open_pipes(argv[1], argv[2]);
  if (coffer_hw_init(&heap, NULL, window(0), HEAP + 16U, &options) == NULL) {
    (void)fprintf(stderr, "example: no unit, or no use for the region\n");
    return 1;
  }
  unsigned char* text = coffer_hw_alloc(&heap, 10);
  store(text, 0x21494F48U);
  text = coffer_hw_realloc(&heap, text, 500);
  if (text == NULL || coffer_hw_stats(&heap, &stats) != COFFER_RT_OK) {
    (void)fprintf(stderr, "example: the heap is damaged\n");
    return 1;
  }
  printf("%zu of %zu bytes live, the largest free block has %zu; kept: %08" PRIx32 "\n", stats.live_bytes,
         stats.heap_bytes, stats.largest_free, load(text));
  return coffer_hw_free(&heap, text) == COFFER_RT_OK && coffer_hw_free(&heap, text) == COFFER_RT_DOUBLE ? 0 : 1;
}
