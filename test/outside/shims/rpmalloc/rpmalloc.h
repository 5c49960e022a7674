/* SPDX-License-Identifier: MIT */
/* rpmalloc's interface over the malloc of the process: what it adds (threads that are announced) does nothing. */
#pragma once
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define RPMALLOC_CDECL
#define RPMALLOC_FIRST_CLASS_HEAPS 0
#define RPMALLOC_NO_PRESERVE 1
#define RPMALLOC_GROW_OR_FAIL 2

typedef struct rpmalloc_config_t {
  void (*error_callback)(const char* message);
  size_t page_size;
  size_t span_map_count;
} rpmalloc_config_t;

static inline int rpmalloc_initialize(void) { return 0; }
static inline int rpmalloc_initialize_config(const rpmalloc_config_t* config) { return (void)config, 0; }
static inline void rpmalloc_finalize(void) {}
static inline void rpmalloc_thread_initialize(void) {}
static inline void rpmalloc_thread_finalize(int release) { (void)release; }
static inline void rpmalloc_thread_collect(void) {}
static inline const rpmalloc_config_t* rpmalloc_config(void) {
  static rpmalloc_config_t config = {0, 4096, 1};
  return &config;
}

static inline void* rpmalloc(size_t size) { return malloc(size); }
static inline void rpfree(void* block) { free(block); }
static inline void* rpcalloc(size_t count, size_t size) { return calloc(count, size); }
static inline void* rprealloc(void* block, size_t size) { return realloc(block, size); }
/* rpmalloc takes 0 and other alignments that every block has. */
static inline void* rpmemalign(size_t alignment, size_t size) {
  return alignment <= 16 ? malloc(size) : memalign(alignment, size);
}
static inline void* rpaligned_alloc(size_t alignment, size_t size) { return rpmemalign(alignment, size); }
static inline int rpposix_memalign(void** block, size_t alignment, size_t size) {
  return posix_memalign(block, alignment, size);
}
static inline size_t rpmalloc_usable_size(void* block) { return malloc_usable_size(block); }
static inline void* rpaligned_realloc(void* block, size_t alignment, size_t size, size_t old, unsigned flags) {
  const size_t usable = malloc_usable_size(block);
  (void)old;
  if ((flags & RPMALLOC_GROW_OR_FAIL) != 0) return size <= usable ? block : NULL;
  void* const other = rpmemalign(alignment, size);
  if (other != NULL && block != NULL) memcpy(other, block, usable < size ? usable : size);
  if (other != NULL) free(block);
  return other;
}
