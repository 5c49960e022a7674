/* SPDX-License-Identifier: MIT */
/* oneTBB's scalable allocator over the malloc of the process. Its limits and modes are told that they are set. */
#pragma once
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
  TBBMALLOC_OK,
  TBBMALLOC_INVALID_PARAM,
  TBBMALLOC_UNSUPPORTED,
  TBBMALLOC_NO_MEMORY,
  TBBMALLOC_NO_EFFECT
} ScalableAllocationResult;
enum { TBBMALLOC_USE_HUGE_PAGES, TBBMALLOC_SET_SOFT_HEAP_LIMIT };
enum { TBBMALLOC_CLEAN_ALL_BUFFERS, TBBMALLOC_CLEAN_THREAD_BUFFERS };

static inline int scalable_allocation_mode(int mode, intptr_t value) { return (void)mode, (void)value, TBBMALLOC_OK; }
/* What a thread keeps is of no account after all was cleaned. */
static inline int scalable_allocation_command(int command, void* argument) {
  if (argument != NULL) return TBBMALLOC_INVALID_PARAM;
  malloc_trim(0);
  return command == TBBMALLOC_CLEAN_ALL_BUFFERS ? TBBMALLOC_OK : TBBMALLOC_NO_EFFECT;
}
static inline void* scalable_malloc(size_t size) { return malloc(size); }
static inline void scalable_free(void* block) { free(block); }
static inline void* scalable_calloc(size_t count, size_t size) { return calloc(count, size); }
static inline void* scalable_realloc(void* block, size_t size) { return realloc(block, size); }
static inline size_t scalable_msize(void* block) { return malloc_usable_size(block); }
static inline int scalable_posix_memalign(void** block, size_t alignment, size_t size) {
  return posix_memalign(block, alignment, size);
}
/* oneTBB takes no alignment that is no power of two, and no size of 0. */
static inline void* scalable_aligned_malloc(size_t size, size_t alignment) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || size == 0) return errno = EINVAL, (void*)NULL;
  return memalign(alignment, size);
}
static inline void* scalable_aligned_realloc(void* block, size_t size, size_t alignment) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) return errno = EINVAL, (void*)NULL;
  if (size == 0) return free(block), (void*)NULL;
  void* const other = memalign(alignment, size);
  const size_t usable = malloc_usable_size(block);
  if (other != NULL && block != NULL) memcpy(other, block, usable < size ? usable : size);
  if (other != NULL) free(block);
  return other;
}
static inline void scalable_aligned_free(void* block) { free(block); }

#ifdef __cplusplus
#include <memory>
namespace tbb {
template <typename Value>
using scalable_allocator = std::allocator<Value>;
}
#endif
