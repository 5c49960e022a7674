/* SPDX-License-Identifier: MIT */
/* coffer-rt: a real-time heap over memory that the caller gives it.
 *
 * Freestanding C11: no operating system, nothing of the C library but memcpy, no recursion, no thread-local storage, no
 * static data that changes. Every loop of a call is bounded by the number of levels and regions; docs/design/rt.md has
 * the proofs, rt/README.md the instruction counts.
 *
 * A heap is not locked unless the options give it lock functions. Sizes are in bytes. Sizes and addresses have 32 or 64
 * bits.
 */
#ifndef COFFER_COFFER_RT_H
#define COFFER_COFFER_RT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How blocks are found. All speak the same calls. */
enum coffer_rt_policy {
  /* coffer-rt proper: lowest address first, state in bitmaps outside the blocks, every call bounded. */
  COFFER_RT_TREE = 0,
  /* The published algorithms, with a header of 4 bytes in each block (thesis, sections 3.1, 3.2 and 4.3), for
   * comparison and for the vectors shared with the hardware. Blocks are aligned to 4 bytes only. */
  COFFER_RT_KNUTH = 1,
  COFFER_RT_ESTRANGED = 2,
  /* A sequential first-fit list, the allocator of table A.4's kind. Unbounded. */
  COFFER_RT_FIRST_FIT = 3,
  /* coffer-rt with the fewest instructions: the same promises as COFFER_RT_TREE, but not the lowest address first, so
   * that coffer_rt_region_bytes asks for more; 4.1 bits of state for each smallest block, not 2.3. */
  COFFER_RT_LISTS = 4
};

enum coffer_rt_error {
  COFFER_RT_OK = 0,
  COFFER_RT_FOREIGN, /* the address lies in none of the heap's regions */
  COFFER_RT_BAD,     /* the address is inside a block, not its start */
  COFFER_RT_DOUBLE,  /* the memory is free already */
  COFFER_RT_CORRUPT, /* a header or a list is damaged; only coffer_rt_check and the in-band policies say so */
  COFFER_RT_ARGUMENT /* an argument is out of range: alignment, region, options, or a call the policy has not */
};

struct coffer_rt;

/* All zeros is the default. */
struct coffer_rt_options {
  enum coffer_rt_policy policy;
  /* The smallest block: a power of two from 8 (16 for the in-band policies) to 65536; 0 is 16. */
  size_t min_block;
  /* Blocks up to this size are aligned to their size, larger ones to this. A power of two; 0 lets the heap choose: the
   * largest power of two up to 4096 that costs at most 1/64 of the region. COFFER_RT_TREE only. */
  size_t alignment;
  /* Not 0: a block is a sum of powers of two where that saves memory (thesis, section 3.1.4). COFFER_RT_TREE and
   * COFFER_RT_LISTS only. The calls' worst cases have rows of their own in rt/README.md. */
  int sums;
  /* Called around each call that reads or changes the heap, if both are given. */
  void (*lock)(void *context);
  void (*unlock)(void *context);
  /* Called, within the lock, with what a call returns as its error; `block` is the address given. */
  void (*on_error)(void *context, enum coffer_rt_error error, const void *block);
  void *context;
};

/* Makes a heap in `region`. Its own state stands at the region's start. NULL if the options are wrong or the region is
 * too small. The region must stay as long as the heap is used; there is nothing to destroy. */
struct coffer_rt *coffer_rt_init(void *region, size_t bytes, const struct coffer_rt_options *options_or_null);

/* One more region, with the heap's options. Requests try the regions in the order in which they were added. A region
 * that is too small, or has memory in common with one of the heap's, is COFFER_RT_ARGUMENT. */
enum coffer_rt_error coffer_rt_add_region(struct coffer_rt *heap, void *region, size_t bytes);

/* NULL if no block is large enough; size 0 gets a block of the smallest size. */
void *coffer_rt_alloc(struct coffer_rt *heap, size_t size);
/* Alignment is a power of two up to the heap's alignment (coffer_rt_stats.alignment). */
void *coffer_rt_alloc_aligned(struct coffer_rt *heap, size_t alignment, size_t size);
/* NULL is freed without effect. A wrong address changes nothing and is told. */
enum coffer_rt_error coffer_rt_free(struct coffer_rt *heap, void *block);
/* In place where the neighbouring memory is free, otherwise alloc, memcpy, free. NULL is an alloc, size 0 is not a
 * free. When it fails the block stays as it was. The copying takes time in proportion to the block. */
void *coffer_rt_realloc(struct coffer_rt *heap, void *block, size_t size);
/* 0 if it is not a live block. */
size_t coffer_rt_usable_size(struct coffer_rt *heap, const void *block);
/* The largest request that would succeed now. */
size_t coffer_rt_largest_free(struct coffer_rt *heap);

/* COFFER_RT_ESTRANGED: recombines everything that can be (thesis, section 3.2.1). Unbounded. Nothing to do for others.
 */
void coffer_rt_panic(struct coffer_rt *heap);

struct coffer_rt_stats {
  size_t region_bytes;   /* what was given */
  size_t heap_bytes;     /* what blocks can be cut from */
  size_t metadata_bytes; /* the rest: state, and what alignment cost */
  size_t live_bytes;     /* usable bytes of live blocks */
  size_t live_blocks;
  size_t largest_free;
  size_t alignment;
};
#if defined(__cplusplus) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* struct and function share a name, as stat(2)'s do */
#endif
/* Walks the heap: for diagnosis, in time proportional to its size. */
void coffer_rt_stats(struct coffer_rt *heap, struct coffer_rt_stats *stats);
#if defined(__cplusplus) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
/* Calls visit for each block, live or free, in each region in order of address, till it returns other than 0, and
 * returns that. `visit` must not call the heap. */
int coffer_rt_walk(struct coffer_rt *heap, int (*visit)(void *context, void *block, size_t bytes, int is_live),
                   void *context);
/* COFFER_RT_OK if all of the heap's state agrees with itself. Time proportional to the heap. */
enum coffer_rt_error coffer_rt_check(struct coffer_rt *heap);

/* What a program will ask for. A request of coffer_rt_alloc_aligned counts as one of its alignment, if that is larger
 * than its size. */
struct coffer_rt_load {
  size_t live_bytes;  /* the largest sum of requested sizes that is live at a time, the request being served included */
  size_t live_blocks; /* the largest number of blocks live at a time; 0: not known */
  size_t smallest;    /* the smallest size requested */
  size_t largest;     /* the largest size requested */
  size_t min_block;   /* as in the options; 0 is 16 */
  size_t alignment;   /* as in the options; 0: room for what the heap may choose, 1/64 of the region at most */
  enum coffer_rt_policy policy; /* COFFER_RT_TREE or COFFER_RT_LISTS */
};
/* The bytes of one region with which a heap of the policy never fails under this load of allocations and frees, however
 * they are ordered (docs/design/rt.md, "How large a heap must be"). 0 if no region that size_t can name is enough, or
 * coffer_rt_init would refuse `min_block` or `alignment`. */
size_t coffer_rt_region_bytes(const struct coffer_rt_load *load);

#ifdef __cplusplus
}
#endif

#endif
