/* SPDX-License-Identifier: MIT */
/* Is malloc of this process Coffer's? It is if blocks of malloc move Coffer's own figures, and of new too. */
#ifndef COFFER_PROBE_H
#define COFFER_PROBE_H

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_BLOCKS 1000
#define PROBE_SIZE 5000

static void* probe_blocks[PROBE_BLOCKS];

/* What mallinfo2 says grows: whoever defines mallinfo2 defines malloc, since Coffer has both. */
static int probe_counts(void* (*allocate)(size_t), void (*release)(void*)) {
  const size_t before = mallinfo2().uordblks;
  for (int i = 0; i < PROBE_BLOCKS; ++i) {
    probe_blocks[i] = allocate(PROBE_SIZE);
    if (probe_blocks[i] == NULL) return 0;
    memset(probe_blocks[i], i, PROBE_SIZE);
  }
  const size_t after = mallinfo2().uordblks;
  for (int i = 0; i < PROBE_BLOCKS; ++i) release(probe_blocks[i]);
  return after - before >= (size_t)PROBE_BLOCKS * PROBE_SIZE;
}

/* glibc's blocks have 8 bytes more than a multiple of 16 and lie behind a header; Coffer's 64-byte blocks have 64. */
static int probe_sizes(void) {
  void* block = malloc(64);
  const size_t usable = malloc_usable_size(block);
  free(block);
  return usable == 64;
}

static int probe_report(int counts) {
  printf("malloc is %s, counted %s\n", probe_sizes() ? "coffer" : "foreign", counts ? "yes" : "no");
  return 0;
}

#endif
