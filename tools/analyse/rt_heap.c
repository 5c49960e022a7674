// SPDX-License-Identifier: MIT
// In C, since rt/src/heap.h is.
#include "rt_heap.h"

#include <stdlib.h>
#include <string.h>

#include "../../rt/src/heap.h"

enum { kPage = 4096 };

struct rt_heap {
  struct coffer_rt* heap;
  void* region;
};

struct rt_heap* rt_heap_make(int is_knuth, size_t bytes) {
  struct rt_heap* made = malloc(sizeof(*made));
  // Room for the heap's own state, and for what cutting it to whole pages costs.
  const size_t region_bytes = bytes + ((sizeof(struct coffer_rt) + kPage - 1) / kPage + 1) * kPage;
  void* region = aligned_alloc(kPage, (region_bytes + kPage - 1) / kPage * kPage);
  if (made == NULL || region == NULL) {
    free(made);
    free(region);
    return NULL;
  }
  const struct coffer_rt_options options = {.policy = is_knuth ? COFFER_RT_KNUTH : COFFER_RT_ESTRANGED,
                                            .alignment = kPage};
  made->region = region;
  made->heap = coffer_rt_init(region, region_bytes, &options);
  if (made->heap == NULL || made->heap->bytes < bytes) {
    rt_heap_end(made);
    return NULL;
  }
  // As rt/test/vectors.c makes it: just this size, and begun anew.
  made->heap->bytes = bytes;
  memset(made->heap->base, 0, bytes);
  made->heap->policy->init(made->heap);
  return made;
}

void rt_heap_end(struct rt_heap* heap) {
  free(heap->region);
  free(heap);
}

uint32_t rt_heap_alloc(struct rt_heap* heap, size_t size) {
  const unsigned char* block = coffer_rt_alloc(heap->heap, size);
  return block == NULL ? RT_HEAP_NO_BLOCK : (uint32_t)(block - heap->heap->base);
}

int rt_heap_free(struct rt_heap* heap, uint32_t offset) {
  return coffer_rt_free(heap->heap, heap->heap->base + offset) == COFFER_RT_OK ? 0 : 1;
}

uint32_t rt_heap_header(const struct rt_heap* heap, uint32_t offset) {
  uint32_t header;
  memcpy(&header, heap->heap->base + offset, sizeof(header));
  return header;
}

int rt_heap_check(struct rt_heap* heap) { return coffer_rt_check(heap->heap) == COFFER_RT_OK ? 0 : 1; }
