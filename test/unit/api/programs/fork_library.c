// SPDX-License-Identifier: MIT
/* See fork_order.c. */
#include <pthread.h>

#include "check.h"

int handler_calls = 0;
static void* kept[1000];

static void allocate(void) {
  for (int i = 0; i < 1000; ++i) kept[i] = opaque(malloc((size_t)i * 40));
  for (int i = 0; i < 1000; ++i) free(kept[i]);
  ++handler_calls;
}

__attribute__((constructor)) static void start(void) { CHECK(pthread_atfork(allocate, allocate, allocate) == 0); }
