/* SPDX-License-Identifier: MIT */
/* The C interface of Coffer.
 *
 * Two libraries carry it: libcoffer.so and libcoffer.a also define malloc, free and the rest of the C and C++
 * allocation functions; libcoffer_core.a defines only the coffer_ names below and replaces nothing.
 *
 * Unless a comment says otherwise: sizes and alignments are in bytes; every function may be called from any thread at
 * any time after the C library started, none from a signal handler that interrupted an allocation function; a failed
 * allocation returns NULL with errno ENOMEM; a size over PTRDIFF_MAX fails; size 0 gives a unique block.
 */
#ifndef COFFER_COFFER_H
#define COFFER_COFFER_H

#include <malloc.h> /* struct mallinfo, struct mallinfo2 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define COFFER_VERSION_MAJOR 0
#define COFFER_VERSION_MINOR 2
#define COFFER_VERSION_PATCH 0

#if defined(__GNUC__)
#define COFFER_EXPORT __attribute__((visibility("default")))
#else
#define COFFER_EXPORT
#endif

#ifdef __cplusplus
#define COFFER_NOEXCEPT noexcept
extern "C" {
#else
#define COFFER_NOEXCEPT
#endif

/* As the functions of <stdlib.h> and <malloc.h> that they are named after. */
COFFER_EXPORT void *coffer_malloc(size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT void coffer_free(void *block) COFFER_NOEXCEPT;
COFFER_EXPORT void *coffer_calloc(size_t count, size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT void *coffer_realloc(void *block, size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT void *coffer_aligned_alloc(size_t alignment, size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT int coffer_posix_memalign(void **result, size_t alignment, size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT void *coffer_memalign(size_t alignment, size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT void *coffer_valloc(size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT void *coffer_pvalloc(size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT size_t coffer_malloc_usable_size(void *block) COFFER_NOEXCEPT;
COFFER_EXPORT void coffer_free_sized(void *block, size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT void coffer_free_aligned_sized(void *block, size_t alignment, size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT int coffer_malloc_trim(size_t pad) COFFER_NOEXCEPT;
#ifdef __GLIBC__ /* musl has no such types; the functions are there for programs that bring their own */
COFFER_EXPORT struct mallinfo coffer_mallinfo(void) COFFER_NOEXCEPT;
COFFER_EXPORT struct mallinfo2 coffer_mallinfo2(void) COFFER_NOEXCEPT;
#endif
COFFER_EXPORT int coffer_malloc_info(int options, FILE *stream) COFFER_NOEXCEPT;
COFFER_EXPORT void coffer_malloc_stats(void) COFFER_NOEXCEPT;
COFFER_EXPORT int coffer_mallopt(int parameter, int value) COFFER_NOEXCEPT;

/* Figures of the whole process, in bytes unless said. Read without stopping other threads, so that figures taken
 * while others allocate may differ by what those do meanwhile. */
struct coffer_stats {
  size_t live;           /* usable bytes of blocks that the program holds, and what lies before large ones (see large);
                            blocks on the free lists of other threads' hot spans count as live, since only their owner
                            may read those lists */
  size_t held;           /* bytes of the spans and large blocks that heaps hold, live or not, and of the pages of
                            sampled guards */
  size_t resident;       /* bytes of blocks' memory that may be backed by physical memory, an upper estimate; pages of
                            spans that were never touched, or were given back, do not count */
  size_t free_resident;  /* the part of resident that belongs to no span and no large block */
  size_t committed;      /* bytes of the arenas made writable, metadata not counted */
  size_t reserved;       /* bytes of address space reserved, metadata counted */
  size_t metadata;       /* bytes of metadata made writable */
  size_t large;          /* bytes of live blocks over 64 KiB, with up to 32 KiB before each: its run starts there */
  size_t heaps;          /* heaps that threads use now */
  size_t heaps_ever;     /* heap records ever made; they are reused, never unmapped */
  size_t spans;          /* spans now in use */
  size_t chunks;         /* chunks ever committed */
  size_t system_calls;   /* calls to the kernel for memory (map, protect, advise, remap) since the start */
  size_t limit;          /* what coffer_get_limit gives */
  size_t bound;          /* what held + free_resident + metadata stays within whenever no thread is inside Coffer:
                            computed from what was in use at most (spans that heaps own count whole), the options, and
                            what large blocks and metadata take. docs/design/bound.md has the proof, how far it follows
                            from what was live, and what it leaves out */
  size_t page_tables;    /* bytes of the whole process's page tables, as the kernel counts them; 0 if it does not */
  size_t mixed_held;     /* the part of held that is spans with blocks of any size, which belong to no class */
  size_t mixed_live;     /* the part of live that lies in them; blocks on other threads' lists count as live, too */
  size_t mixed_resident; /* the part of resident that is theirs; what of it is not live is free for every size */
};

/* Figures of one size class; index from 0. Bytes unless said. */
struct coffer_class_stats {
  size_t block_bytes; /* bytes of a block */
  size_t spans;       /* spans in use */
  size_t held;        /* bytes of those spans */
  size_t live;        /* as coffer_stats.live */
  size_t bound;       /* what held stays within; see coffer_stats.bound */
};

/* Figures of one heap; index from 0, coffer_stats.heaps_ever of them. Heap 0 serves threads that have none. Bytes. */
struct coffer_heap_stats {
  size_t attached; /* 1: a thread uses it */
  size_t held;     /* bytes of the spans that only its thread allocates from */
  size_t slack;    /* free bytes in those that are neither in use now nor mostly full, as counted last */
  size_t mailed;   /* bytes of spans that frees of other threads have handed back to it, not yet taken */
};

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* struct and function share a name, as stat(2)'s do */
#endif
/* Fills *stats; size is sizeof(struct coffer_stats) of the caller, so that later versions may add fields at the end.
 * Returns 0, or EINVAL if stats is NULL or size is 0. */
COFFER_EXPORT int coffer_stats(struct coffer_stats *stats, size_t size) COFFER_NOEXCEPT;
/* As coffer_stats; ENOENT if there is no class or heap of that index (any more, or yet). */
COFFER_EXPORT int coffer_class_stats(unsigned index, struct coffer_class_stats *stats, size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT int coffer_heap_stats(unsigned index, struct coffer_heap_stats *stats, size_t size) COFFER_NOEXCEPT;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/* A limit on what may be resident: bytes of spans and large blocks, of free memory that was not given back yet, and of
 * metadata (coffer_stats: resident + metadata). An allocation that would pass it first gives back all free memory, of
 * this thread's heap too; if that is not enough it fails with ENOMEM. Blocks that are freed count again at once. 0: no
 * limit. It may be changed at any time, by any thread; COFFER_CONF=limit:2G sets it at the start, and a fork child
 * inherits it. Lower than what is in use, it fails new memory only. Returns 0. */
COFFER_EXPORT int coffer_set_limit(size_t bytes) COFFER_NOEXCEPT;
COFFER_EXPORT size_t coffer_get_limit(void) COFFER_NOEXCEPT;

/* The heap profile. Allocations are sampled from now on: each byte with probability 1 / mean_bytes (0: what the option
 * profile_rate says, 512 KiB unless set), so that large blocks are sampled more often, and each sample stands for as
 * many blocks as its size makes it. Again with another mean: what was sampled so far keeps its weight. Stopped, nothing
 * new is sampled; blocks that were stay known until they are freed. */
COFFER_EXPORT void coffer_profile_start(size_t mean_bytes) COFFER_NOEXCEPT;
COFFER_EXPORT void coffer_profile_stop(void) COFFER_NOEXCEPT;
/* Writes what was sampled since the start, and what of it is live, to a file that pprof reads (gzipped profile.proto),
 * in place of what is there. path NULL: to a new file, PREFIX.PID.N.pb.gz, with the option profile_to as PREFIX, else
 * "coffer". Returns 0, or -1: the file cannot be written, and is not there. */
COFFER_EXPORT int coffer_profile_dump(const char *path) COFFER_NOEXCEPT;

/* Walks all metadata and verifies its invariants, and each term of the bound by itself. For tests and debuggers: other
 * threads must not be inside Coffer. Returns 0, or the number of violations found, each reported as one line on stderr,
 * with the heap and the class that it is about. */
COFFER_EXPORT size_t coffer_check(void) COFFER_NOEXCEPT;

/* Heaps for threads that must not wait (audio, control loops): blocks from a region that is in memory before the first
 * call and stays there. Between create and destroy no call asks anything of the kernel, and each takes a bounded number
 * of instructions (rt/README.md has the counts): coffer-rt lies below, the buddy heap of docs/design/rt.md. Two threads
 * that meet in one heap are the exception: the later one waits in the kernel, for one call of the other, which inherits
 * its priority. calloc and realloc take time in proportion to what they clear or copy besides. */
struct coffer_heap;

/* All zeros is the default. */
struct coffer_heap_options {
  size_t min_block;   /* the smallest block: a power of two from 8 to 65536; 0 is 16 */
  size_t alignment;   /* blocks up to this size are aligned to their size, larger ones to this: a power of two; 0: the
                         largest one up to 4096 that costs at most 1/64 of the region */
  int single_thread;  /* not 0: the caller sees to it that one thread at a time calls; nothing is locked then */
  int allow_unlocked; /* not 0: where the process may not lock memory (RLIMIT_MEMLOCK), go on with pages that are there
                         but that the kernel may take back under pressure */
  int huge_pages;     /* not 0: ask for huge pages. Fewer TLB misses; but the kernel may join pages while the heap is in
                         use, and stops who touches them meanwhile */
};

/* A heap in `bytes` of memory, rounded up to pages; 2.3 bits for each smallest block of it and what alignment costs are
 * the heap's own. coffer_rt_region_bytes (coffer/coffer_rt.h) computes how many bytes a load needs so that it can never
 * fail. options may be NULL. A heap for several threads may be used in a fork child, which has a copy of it, without
 * locks on its memory; one for a single thread if the forking thread is that one.
 * NULL with errno EINVAL (bytes 0, or options out of range, or too few bytes for one block), ENOMEM (no memory, or more
 * than RLIMIT_MEMLOCK allows to lock), EPERM (RLIMIT_MEMLOCK is 0), EAGAIN (not all could be locked), ENOTSUP (the
 * system has no mutexes with priority inheritance). */
COFFER_EXPORT struct coffer_heap *coffer_heap_create(size_t bytes,
                                                     const struct coffer_heap_options *options) COFFER_NOEXCEPT;
/* Gives all its memory back, live blocks too. No other thread may be inside. NULL is ignored. */
COFFER_EXPORT void coffer_heap_destroy(struct coffer_heap *heap) COFFER_NOEXCEPT;

COFFER_EXPORT void *coffer_heap_malloc(struct coffer_heap *heap, size_t size) COFFER_NOEXCEPT;
COFFER_EXPORT void *coffer_heap_calloc(struct coffer_heap *heap, size_t count, size_t size) COFFER_NOEXCEPT;
/* EINVAL if alignment is no power of two; ENOMEM if it is above coffer_heap_info.alignment. */
COFFER_EXPORT void *coffer_heap_aligned_alloc(struct coffer_heap *heap, size_t alignment, size_t size) COFFER_NOEXCEPT;
/* In place where the memory behind the block is free. EINVAL if it is no live block of this heap; size 0 is no free. */
COFFER_EXPORT void *coffer_heap_realloc(struct coffer_heap *heap, void *block, size_t size) COFFER_NOEXCEPT;
/* 0; or EINVAL, and nothing is changed, if it is no live block of this heap: a foreign address, one inside a block, or
 * one that is free already. NULL is ignored. Blocks of malloc are freed with free, blocks of a heap with this. */
COFFER_EXPORT int coffer_heap_free(struct coffer_heap *heap, void *block) COFFER_NOEXCEPT;
/* 0 if it is no live block of this heap. */
COFFER_EXPORT size_t coffer_heap_usable_size(struct coffer_heap *heap, const void *block) COFFER_NOEXCEPT;
/* The largest request that would succeed now. */
COFFER_EXPORT size_t coffer_heap_largest_free(struct coffer_heap *heap) COFFER_NOEXCEPT;

/* Bytes unless said. */
struct coffer_heap_info {
  size_t resident;     /* what was locked or touched at the start */
  size_t bytes;        /* what blocks can be cut from */
  size_t live;         /* usable bytes of live blocks */
  size_t live_blocks;  /* their number */
  size_t largest_free; /* as coffer_heap_largest_free */
  size_t alignment;    /* the largest that a block can ask for */
};
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as above */
#endif
/* Fills *info, as coffer_stats does; EINVAL if a pointer is NULL or size is 0. Walks the heap: for diagnosis. */
COFFER_EXPORT int coffer_heap_info(struct coffer_heap *heap, struct coffer_heap_info *info,
                                   size_t size) COFFER_NOEXCEPT;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
/* Verifies all of the heap's state, in time proportional to its size. 0, or 1 if it is damaged. */
COFFER_EXPORT size_t coffer_heap_check(struct coffer_heap *heap) COFFER_NOEXCEPT;

/* "MAJOR.MINOR.PATCH", static storage. */
COFFER_EXPORT const char *coffer_version(void) COFFER_NOEXCEPT;

/* The value that an option of COFFER_CONF has now, as text, written to text (at most size bytes, with its final 0).
 * Returns the length of the full text without its 0 (as snprintf does), or -1 with errno ENOENT if there is no such
 * option. name NULL: all options as "key:value,key:value".
 *
 * A program may bring options of its own, which COFFER_CONF then overrides, by defining this with C linkage:
 *   const char *coffer_conf_string = "slack:32K,stats:true"; */
COFFER_EXPORT int coffer_conf(const char *name, char *text, size_t size) COFFER_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
