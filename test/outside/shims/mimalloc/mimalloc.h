/* SPDX-License-Identifier: MIT */
/* mimalloc's interface, as far as its tests go by it, over the malloc of the process. Its heaps are malloc by another
 * name; what only a real heap can do ends the case as not applicable. */
#ifndef OUTSIDE_MIMALLOC_H
#define OUTSIDE_MIMALLOC_H

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define mi_cdecl
#define MI_SMALL_SIZE_MAX (128 * sizeof(void*))
#define MI_ZU(number) ((size_t)number)
#define MI_MiB ((size_t)1 << 20)
#define MI_GiB ((size_t)1 << 30)

#define OUTSIDE_MI static inline __attribute__((unused))
OUTSIDE_MI void outside_not_applicable(const char* what) {
  fprintf(stderr, "%s is mimalloc's alone\n", what);
  exit(77);
}

OUTSIDE_MI void* mi_malloc(size_t size) { return malloc(size); }
OUTSIDE_MI void* mi_malloc_small(size_t size) { return malloc(size); }
OUTSIDE_MI void* mi_calloc(size_t count, size_t size) { return calloc(count, size); }
OUTSIDE_MI void* mi_mallocn(size_t count, size_t size) { return reallocarray(NULL, count, size); }
OUTSIDE_MI void* mi_zalloc(size_t size) { return calloc(1, size); }
OUTSIDE_MI void* mi_zalloc_small(size_t size) { return calloc(1, size); }
OUTSIDE_MI void* mi_realloc(void* block, size_t size) { return realloc(block, size); }
OUTSIDE_MI void* mi_reallocn(void* block, size_t count, size_t size) { return reallocarray(block, count, size); }
OUTSIDE_MI void* mi_reallocarray(void* block, size_t count, size_t size) { return reallocarray(block, count, size); }
OUTSIDE_MI void mi_free(void* block) { free(block); }
OUTSIDE_MI void mi_free_small(void* block) { free(block); }
OUTSIDE_MI void mi_free_size(void* block, size_t size) { (void)size, free(block); }
OUTSIDE_MI void mi_free_csize(void* block, size_t size) { (void)size, free(block); }
OUTSIDE_MI void mi_free_size_aligned(void* block, size_t size, size_t alignment) {
  (void)size, (void)alignment, free(block);
}
OUTSIDE_MI size_t mi_usable_size(const void* block) { return malloc_usable_size((void*)block); }
OUTSIDE_MI size_t mi_malloc_size(const void* block) { return malloc_usable_size((void*)block); }
OUTSIDE_MI size_t mi_malloc_usable_size(const void* block) { return malloc_usable_size((void*)block); }
OUTSIDE_MI char* mi_strdup(const char* text) { return strdup(text); }
OUTSIDE_MI char* mi_realpath(const char* name, char* place) { return realpath(name, place); }

OUTSIDE_MI int mi_posix_memalign(void** block, size_t alignment, size_t size) {
  return posix_memalign(block, alignment, size);
}
OUTSIDE_MI void* mi_memalign(size_t alignment, size_t size) { return memalign(alignment, size); }
OUTSIDE_MI void* mi_malloc_aligned(size_t size, size_t alignment) { return memalign(alignment, size); }
OUTSIDE_MI void* mi_zalloc_aligned(size_t size, size_t alignment) {
  void* const block = memalign(alignment, size);
  return block == NULL ? block : memset(block, 0, size);
}
OUTSIDE_MI void* mi_calloc_aligned(size_t count, size_t size, size_t alignment) {
  return mi_zalloc_aligned(count * size, alignment);
}
OUTSIDE_MI void* mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset) {
  if (offset != 0) outside_not_applicable("an alignment at an offset");
  return memalign(alignment, size);
}

/* What grows and is zeroed needs an allocator that knows what was asked for. */
OUTSIDE_MI void* mi_rezalloc(void* block, size_t size) {
  return (void)block, (void)size, outside_not_applicable("mi_rezalloc"), (void*)NULL;
}
OUTSIDE_MI void* mi_recalloc(void* block, size_t count, size_t size) { return mi_rezalloc(block, count * size); }
OUTSIDE_MI void* mi_rezalloc_aligned(void* block, size_t size, size_t alignment) {
  return (void)alignment, mi_rezalloc(block, size);
}
OUTSIDE_MI void* mi_recalloc_aligned(void* block, size_t count, size_t size, size_t alignment) {
  return (void)alignment, mi_rezalloc(block, count * size);
}
OUTSIDE_MI void* mi_realloc_aligned(void* block, size_t size, size_t alignment) {
  return (void)alignment, mi_rezalloc(block, size);
}
OUTSIDE_MI int mi_reallocarr(void* block, size_t count, size_t size) {
  return (void)block, (void)count, (void)size, outside_not_applicable("mi_reallocarr"), 0;
}
OUTSIDE_MI void mi_cfree(void* block) { (void)block, outside_not_applicable("mi_cfree"); }
OUTSIDE_MI void* mi_umalloc(size_t size, size_t* got) {
  return (void)size, (void)got, outside_not_applicable("mi_umalloc"), (void*)NULL;
}
OUTSIDE_MI void* mi_urealloc(void* block, size_t size, size_t* before, size_t* after) {
  return (void)block, (void)size, (void)before, (void)after, outside_not_applicable("mi_urealloc"), (void*)NULL;
}
OUTSIDE_MI void mi_ufree(void* block, size_t* size) { (void)block, (void)size, outside_not_applicable("mi_ufree"); }
OUTSIDE_MI int mi_reserve_os_memory(size_t size, bool commit, bool large) {
  return (void)size, (void)commit, (void)large, outside_not_applicable("mi_reserve_os_memory"), 0;
}

/* Heaps. */
typedef struct mi_heap_s {
  int nothing;
} mi_heap_t;
typedef mi_heap_t mi_theap_t;
OUTSIDE_MI mi_heap_t* mi_heap_new(void) {
  static mi_heap_t only;
  return &only;
}
OUTSIDE_MI mi_theap_t* mi_theap_get_default(void) { return mi_heap_new(); }
OUTSIDE_MI mi_heap_t* mi_heap_new_qsbr(void) { return outside_not_applicable("mi_heap_new_qsbr"), (mi_heap_t*)NULL; }
OUTSIDE_MI void* mi_heap_malloc(mi_heap_t* heap, size_t size) { return (void)heap, malloc(size); }
OUTSIDE_MI void* mi_theap_malloc(mi_theap_t* heap, size_t size) { return (void)heap, malloc(size); }
OUTSIDE_MI void* mi_theap_zalloc_csize(mi_theap_t* heap, size_t size) { return (void)heap, calloc(1, size); }
OUTSIDE_MI void* mi_heap_malloc_aligned(mi_heap_t* heap, size_t size, size_t alignment) {
  return (void)heap, memalign(alignment, size);
}
OUTSIDE_MI void mi_heap_delete(mi_heap_t* heap) { (void)heap; }
OUTSIDE_MI void mi_heap_destroy(mi_heap_t* heap) { (void)heap, outside_not_applicable("mi_heap_destroy"); }
OUTSIDE_MI bool mi_heap_contains(mi_heap_t* heap, const void* block) {
  return (void)heap, (void)block, outside_not_applicable("mi_heap_contains"), false;
}
OUTSIDE_MI void mi_theap_quiescent_abandon(mi_theap_t* heap) { (void)heap; }
OUTSIDE_MI size_t mi_thread_id_of(const void* block) { return (void)block, (size_t)0; }
OUTSIDE_MI void mi_thread_init(void) {}
typedef struct {
  void* _mi_subproc_id;
} mi_subproc_id_t;

/* Housekeeping. */
typedef struct {
  struct {
    long current;
  } pages;
} mi_stats_t;
#define mi_stats_t_decl(name) mi_stats_t name = {{0}}
#define mi_option_verbose 0
#define mi_option_disallow_arena_alloc 1
OUTSIDE_MI void mi_option_disable(int option) { (void)option; }
OUTSIDE_MI void mi_option_set(int option, long value) {
  (void)value;
  if (option == mi_option_disallow_arena_alloc) outside_not_applicable("mi_option_disallow_arena_alloc");
}
OUTSIDE_MI void mi_collect(bool force) { (void)force, malloc_trim(0); }
OUTSIDE_MI void mi_stats_get(mi_stats_t* stats) { (void)stats; }
OUTSIDE_MI void mi_stats_reset(void) {}
OUTSIDE_MI void mi_stats_print(void* out) { (void)out; }
OUTSIDE_MI void mi_register_error(void (*handler)(int, void*), void* argument) { (void)handler, (void)argument; }
OUTSIDE_MI int mi_version(void) { return 0; }
OUTSIDE_MI bool mi_is_in_heap_region(const void* block) { return block != NULL; }
OUTSIDE_MI void* _expand(void* block, size_t size) { return (void)size, block; }

#ifdef __cplusplus
#include <memory>
template <typename Value>
using mi_stl_allocator = std::allocator<Value>;
#endif

#endif
