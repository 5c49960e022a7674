/* SPDX-License-Identifier: MIT */
/* A heap of coffer-rt's in-band policies with offsets for addresses, as rt/vectors/README.md has them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RT_HEAP_NO_BLOCK 0xFFFFFFFFU

struct rt_heap;

/* bytes: a power of two, 64 to 2^30. NULL: no memory. */
struct rt_heap* rt_heap_make(int is_knuth, size_t bytes);
void rt_heap_end(struct rt_heap* heap);
/* The block's offset, RT_HEAP_NO_BLOCK if there is none. */
uint32_t rt_heap_alloc(struct rt_heap* heap, size_t size);
/* 0: done. */
int rt_heap_free(struct rt_heap* heap, uint32_t offset);
/* The header word of the block that begins at this offset. */
uint32_t rt_heap_header(const struct rt_heap* heap, uint32_t offset);
/* 0: nothing is damaged. */
int rt_heap_check(struct rt_heap* heap);

#ifdef __cplusplus
}
#endif
