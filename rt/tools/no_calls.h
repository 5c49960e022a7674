/* SPDX-License-Identifier: MIT */
// Calls that do nothing, made in the same way as those that are counted: what the counting itself costs.
#ifndef COFFER_RT_NO_CALLS_H
#define COFFER_RT_NO_CALLS_H

#include "coffer/coffer_rt.h"

__attribute__((noinline)) static void* no_alloc(struct coffer_rt* heap, size_t size) {
  (void)heap;
  (void)size;
  __asm__ volatile("");
  return NULL;
}
__attribute__((noinline)) static enum coffer_rt_error no_free(struct coffer_rt* heap, void* block) {
  (void)heap;
  (void)block;
  __asm__ volatile("");
  return COFFER_RT_OK;
}

#endif
