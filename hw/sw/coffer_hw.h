/* SPDX-License-Identifier: MIT */
/* coffer-hw from a processor: the calls of coffer_rt.h, served by an allocator on a bus (hw/doc/registers.md).
 *
 * Freestanding C11; nothing of the C library. The region is ordinary memory that both the processor and the unit reach.
 * The unit keeps a header of four bytes in front of each block and links in free ones, and knows nothing of caches:
 * memory that the processor caches has to be coherent with the unit's master, or left uncached.
 */
#ifndef COFFER_HW_H
#define COFFER_HW_H

#include <stddef.h>
#include <stdint.h>

#include "coffer/coffer_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How registers are reached, if not by loads and stores: through another bus, or a simulation. */
struct coffer_hw_bus {
  uint32_t (*read)(void* context, uint32_t offset);
  void (*write)(void* context, uint32_t offset, uint32_t value);
  void* context;
  /* The region's words, if loads and stores do not reach them either: both, or neither. */
  uint32_t (*load)(void* context, const void* place);
  void (*store)(void* context, void* place, uint32_t value);
};

/* All zeros is the default. */
struct coffer_hw_options {
  const struct coffer_hw_bus* bus; /* NULL: `registers` is where they are mapped */
  /* Where the unit sees the region's first byte; 0: at the address that the processor sees. */
  uint32_t bus_address;
  /* A power of two from 4 to 4096; 0 is 4. Blocks up to this size, header included, are aligned to their size, larger
   * ones to this. The heap begins up to this much into the region, so a region of so many bytes more than a power of
   * two loses nothing. */
  size_t alignment;
  /* Memory in which the driver keeps a bit for each smallest block, so that it knows which are live: the unit cannot be
   * asked. NULL: walk and the live figures of stats are not to be had, and an address is known as wrong only as far as
   * a header can tell. coffer_hw_book_bytes says how much is needed; with less, init fails. */
  void* book;
  size_t book_bytes;
  /* Not 0: the answer's read waits on the bus until it is there, instead of asking again and again. Not for a bus on
   * which the unit's own transfers would have to wait behind that read: nothing would ever move again. */
  int waits;
  /* How often the state is asked for before a call is given up as lost; 0 is 1,000,000. */
  uint32_t patience;
  /* Called around each call that reads or changes the heap, if both are given. */
  void (*lock)(void* context);
  void (*unlock)(void* context);
  /* Called, within the lock, with what a call returns as its error; `block` is the address given. */
  void (*on_error)(void* context, enum coffer_rt_error error, const void* block);
  void* context;
};

/* What the driver keeps of one unit: the caller's memory, the driver's business. */
struct coffer_hw {
  volatile uint32_t* registers;
  unsigned char* heap; /* the first block's header */
  uint32_t bus_heap;   /* the same, as the unit sees it */
  uint32_t bytes;
  size_t region_bytes;
  uint32_t min_log2; /* of the smallest block's bytes */
  uint32_t live_bit; /* bit 0 of a live block's header, which is a generic of the unit */
  int is_lost;       /* the unit has not answered, or memory has refused it */
  struct coffer_hw_options options;
};

/* Makes a heap of the largest power of two that fits into `region`, in the unit whose registers are at `registers`;
 * what was there before is closed first. NULL if there is no such unit, the options are wrong, the region is too small,
 * or what the unit writes there is not what the processor reads. */
struct coffer_hw* coffer_hw_init(struct coffer_hw* heap, volatile void* registers, void* region, size_t bytes,
                                 const struct coffer_hw_options* options_or_null);

/* NULL if no block is large enough; size 0 gets a block of the smallest size. */
void* coffer_hw_alloc(struct coffer_hw* heap, size_t size);

/* Alignment is a power of two up to the options' alignment; of a larger one, COFFER_RT_ARGUMENT is told. */
void* coffer_hw_alloc_aligned(struct coffer_hw* heap, size_t alignment, size_t size);

/* NULL is freed without effect. A wrong address changes nothing and is told: COFFER_RT_FOREIGN, _BAD or _DOUBLE;
 * without a book, as far as a header in front of the block can tell. COFFER_RT_CORRUPT: memory has refused one of the
 * unit's own transfers, or the unit does not answer; only init helps. A unit that posts frees (hw/doc/ohebs.md) says
 * COFFER_RT_OK at once where there is no book. */
enum coffer_rt_error coffer_hw_free(struct coffer_hw* heap, void* block);

/* In place if the block is large enough, otherwise alloc, a copy of its words, free. NULL is an alloc, size 0 is not a
 * free. When it fails the block stays as it was. The copying takes time in proportion to the block. */
void* coffer_hw_realloc(struct coffer_hw* heap, void* block, size_t size);

/* 0 if it is not a live block; without a book, as far as a header can tell: of one that has been freed it may still be
 * the size. */
size_t coffer_hw_usable_size(struct coffer_hw* heap, const void* block);

/* The largest request that would succeed now: asked of the unit by trial, from the largest size down. */
size_t coffer_hw_largest_free(struct coffer_hw* heap);

/* COFFER_RT_ARGUMENT without a book: then live_bytes and live_blocks are 0, and the rest is right. Time in proportion
 * to the heap, for diagnosis, as all that follows. */
enum coffer_rt_error coffer_hw_stats(struct coffer_hw* heap, struct coffer_rt_stats* stats);

/* Calls visit for each block in order of address, till it returns other than 0, and returns that. What is free comes as
 * the largest blocks that it could be: how the unit has cut it is not known. `visit` must not call the heap. -1, and
 * told as COFFER_RT_ARGUMENT or _CORRUPT, without a book or at a damaged header. */
int coffer_hw_walk(struct coffer_hw* heap, int (*visit)(void* context, void* block, size_t bytes, int is_live),
                   void* context);

/* COFFER_RT_OK if the unit's registers are those of this heap and no transfer has been refused; with a book, if also
 * each live block's header is whole and no two overlap. The unit's lists cannot be seen. */
enum coffer_rt_error coffer_hw_check(struct coffer_hw* heap);

/* What a book for a region of so many bytes needs, whatever the unit. */
size_t coffer_hw_book_bytes(size_t region_bytes);

/* What was wrong with the first posted free since this was last asked that was wrong. */
enum coffer_rt_error coffer_hw_late(struct coffer_hw* heap);

/* Sets the marks between which the unit keeps its buffer of blocks of 2^index bytes, header included.
 * COFFER_RT_ARGUMENT if it has no such index, or no such marks. */
enum coffer_rt_error coffer_hw_marks(struct coffer_hw* heap, unsigned index, unsigned low, unsigned high);

/* The unit forgets the heap and leaves its memory alone. */
void coffer_hw_close(struct coffer_hw* heap);

/* The bytes of which blocks are cut. */
size_t coffer_hw_bytes(const struct coffer_hw* heap);

#ifdef __cplusplus
}
#endif

#endif
