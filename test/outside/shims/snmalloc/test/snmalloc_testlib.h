// SPDX-License-Identifier: MIT
// In place of snmalloc's test library: the same names over the malloc of the process. A block is never owned by
// snmalloc, and its tests then take any size and place that holds what was asked for.
#pragma once
#include <errno.h>
#include <malloc.h>
#include <snmalloc/ds_core/ds_core.h>
#include <snmalloc/snmalloc_core.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Other allocators align to what C asks for, and not to the largest power of two that divides a size.
#define natural_alignment(size) size_t(1)

namespace snmalloc {
inline void* outside_known(void* block) {
  if (block == nullptr) abort();
  return block;
}

template <ZeroMem zero = ZeroMem::NoZero>
void* alloc(size_t size) {
  return outside_known(zero == ZeroMem::YesZero ? calloc(1, size) : malloc(size));
}
template <size_t size, ZeroMem zero = ZeroMem::NoZero>
void* alloc() {
  return alloc<zero>(size);
}
inline void dealloc(void* block) { free(block); }
inline void dealloc(void* block, size_t) { free(block); }
inline void dealloc(void* block, size_t, size_t) { free(block); }
template <size_t size>
void dealloc(void* block) {
  free(block);
}
inline size_t alloc_size(const void* block) { return malloc_usable_size(const_cast<void*>(block)); }
inline size_t remaining_bytes(const void*) { return SIZE_MAX; }
inline bool is_owned(const void*) { return false; }
inline void debug_check_empty(bool* = nullptr) {}
inline void debug_in_use(size_t) {}
inline void debug_teardown() {}
inline void cleanup_unused() {}
inline size_t max_small_sizeclass_bits() { return MAX_SMALL_SIZECLASS_BITS; }
inline size_t pal_address_bits() { return 48; }
inline void* pointer_offset(void* base, size_t difference) { return static_cast<char*>(base) + difference; }

struct ScopedAllocHandle {
  ScopedAllocHandle* operator->() { return this; }
  void* alloc(size_t size) { return snmalloc::alloc(size); }
  void dealloc(void* block) { free(block); }
  void dealloc(void* block, size_t) { free(block); }
};
inline ScopedAllocHandle get_scoped_allocator() { return {}; }

namespace libc {
inline void* calloc(size_t count, size_t size) { return ::calloc(count, size); }
inline void free(void* block) { ::free(block); }
inline void* __malloc_start_pointer(void* block) { return block; }
inline void* __malloc_last_byte_pointer(void* block) { return block; }
}  // namespace libc
}  // namespace snmalloc

inline void* testlib_malloc(size_t size) { return malloc(size); }
inline void testlib_free(void* block) { free(block); }
inline void* testlib_calloc(size_t count, size_t size) { return calloc(count, size); }
inline void* testlib_realloc(void* block, size_t size) { return realloc(block, size); }
inline void* testlib_reallocarray(void* block, size_t count, size_t size) { return reallocarray(block, count, size); }
inline void* testlib_memalign(size_t alignment, size_t size) { return memalign(alignment, size); }
inline int testlib_posix_memalign(void** block, size_t alignment, size_t size) {
  return posix_memalign(block, alignment, size);
}
inline size_t testlib_malloc_usable_size(void* block) { return malloc_usable_size(block); }
inline size_t testlib_malloc_good_size(size_t size) { return size; }

// NetBSD's, which glibc does not have: over realloc.
inline int testlib_reallocarr(void* place, size_t count, size_t size) {
  void** const block = static_cast<void**>(place);
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return EOVERFLOW;
  if (bytes == 0) {
    free(*block);
    *block = nullptr;
    return 0;
  }
  const int before = errno;
  void* const moved = realloc(*block, bytes);
  errno = before;
  if (moved == nullptr) return ENOMEM;
  *block = moved;
  return 0;
}
