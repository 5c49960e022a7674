/* SPDX-License-Identifier: MIT */
// The heap's state. docs/design/rt.md explains it; here stand the invariants.
//
// Units are blocks of the smallest size, numbered from `base`. The tree has `top + 1` levels. A node of level 0 stands
// for RT_RADIX units, a node of level l for RT_RADIX nodes of level l-1; a *cell* of level l is what one bit of its
// nodes stands for: RT_RADIX^l units. A block of 2^k units is a run of cells of level k / RT_RADIX_LOG2.
//
// A node is an array of words, pointed to by f:
//   f[-2]      usable (levels above 0 only): cells that are neither of a live block of this level nor beyond the end
//   f[-1]      inside: cells of a live block of this level, but not its first
//   f[0]       free: cells that are free as a whole
//   f[j]       for j = 1..l*RT_RADIX_LOG2: cells whose node has an aligned free run of at least
//              2^(l*RT_RADIX_LOG2 - j) units. So order k is at f[l*RT_RADIX_LOG2 - k]; f[0] is the highest, the cell.
//   f[last+1]  all ones (levels above 0 only): ends the loop that sets bits
// "Has a run" is what the cell's node says, also of live cells, whose nodes are as if free: so blocks come and go
// without a touch on f[1..]. Who searches takes the usable cells only.
//
// Invariants (coffer_rt_check tests them):
//   1. f[0] is a subset of f[1], f[1] of f[2], and so on.
//   2. A node whose f[0] is RT_FULL has every f[j] RT_FULL, nothing inside, all usable; and so have the nodes below it.
//   3. A cell is free, live, or split (neither). The node of a free or live cell is RT_FULL, that of a split cell not.
//      At level 0, a unit that is not free is live. Cells beyond the end look live, as one block, and have no node.
//   4. A cell's bit in f[j] is set if and only if its node has a run of that order.
#ifndef COFFER_RT_HEAP_H
#define COFFER_RT_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bits.h"
#include "coffer/coffer_rt.h"

// Marks how often something happens in a call: for each mark there is a bound, which docs/design/rt.md proves, tests
// count, and tools/longest_path.py uses. With COFFER_RT_MARKS a mark is a label; with COFFER_RT_MARKS == 2 a no-op
// stands at it, so that the tool sees just where it is. Either way the compiler makes the same of the rest.
#ifndef RT_LOOP
#if !defined(COFFER_RT_MARKS)
#define RT_LOOP(name) ((void)0)
#elif COFFER_RT_MARKS == 2
#define RT_LOOP(name) __asm__ volatile("rt_mark_" #name "_%=: nop" ::)
#else
#define RT_LOOP(name) __asm__ volatile("rt_mark_" #name "_%=:" ::)
#endif
#endif

// What coffer_rt_init chooses where its options say 0.
#define RT_DEFAULT_MIN_BLOCK 16U
#define RT_MAX_DEFAULT_ALIGNMENT 4096U

#define RT_WORD_BITS (1U << COFFER_RT_WORD_LOG2)
// Levels for every heap that size_t can name.
#define RT_LEVELS ((RT_WORD_BITS / RT_RADIX_LOG2) + 1U)

// The level of the cells that blocks of an order below 64 are runs of. Division takes long on small processors.
#if COFFER_RT_RADIX_LOG2 == 5
#define RT_LEVEL_OF(order) (((order) * 13U) >> 6U)
#elif COFFER_RT_RADIX_LOG2 == 6
#define RT_LEVEL_OF(order) (((order) * 43U) >> 8U)
#else
#define RT_LEVEL_OF(order) ((order) / RT_RADIX_LOG2)
#endif

struct rt_level {
  rt_word* first;  // f of node 0
  size_t nodes;
  size_t cells;  // the last node may have cells beyond the end
};

// What the other policies do instead of the tree.
struct rt_policy {
  void (*init)(struct coffer_rt* heap);
  void* (*alloc)(struct coffer_rt* heap, size_t size);
  enum coffer_rt_error (*give_back)(struct coffer_rt* heap, unsigned char* block);
  size_t (*usable_size)(const struct coffer_rt* heap, const unsigned char* block);
  size_t (*largest_free)(const struct coffer_rt* heap);
  int (*walk)(struct coffer_rt* heap, int (*visit)(void* context, void* block, size_t bytes, int is_live),
              void* context);
  enum coffer_rt_error (*check)(const struct coffer_rt* heap);
  void (*panic)(struct coffer_rt* heap);
  // NULL in the policies whose state is in the blocks: the words of it that stand before them, and a block's change of
  // size where it stands, if it can.
  size_t (*words)(size_t units);
  bool (*resize)(struct coffer_rt* heap, const unsigned char* block, size_t size);
};

struct rt_tree {
  unsigned top;
  struct rt_level level[RT_LEVELS];
};

// Heads of the in-band policies' lists, as offsets in the region; a list that is empty has RT_NOTHING.
#define RT_NOTHING 0xFFFFFFFFU
struct rt_lists {
  uint32_t busy[32];     // Knuth: free blocks of 2^k bytes. Estranged: those whose buddy is not free.
  uint32_t pairs[32];    // Estranged: left buddies whose right buddy is free too.
  uint32_t not_empty;    // Fast Find: bit k is set if busy[k] or pairs[k] is not empty.
  uint32_t pairs_exist;  // bit k: pairs[k] is not empty
};

// The heap with lists (lists.h, lists.c). Nodes, cells and levels are the tree's. Invariants (coffer_rt_check tests
// them):
//   1. Invariant 3 above, `used` being all but the free ones; a split cell is no part of a block, nor is a free one.
//   2. The lists of all levels are one chain: head[0] of level 0, its nodes, head[1], and so on; head[0] of level 1
//   comes
//      after the last list of level 0. Whoever follows it from a head meets nodes of that list, or heads of lists that
//      are empty, so no list needs to be told empty or not. At the end of it each head of the top has the top node.
//   3. A node below the top that has free cells and is not all free is on list head[k] of its level, 2^k cells being
//      its largest aligned run of free ones. A node that has none is on no list and has links to itself, so that it may
//      be taken off as if it were. The links of one that is all free mean nothing.
struct rt_link {
  struct rt_link* next;
  struct rt_link* previous;
};
struct rt_listed {
  struct rt_link link;
  rt_word used;     // cells that are not free
  rt_word goes_on;  // cells of a live block of this level, but not its last
};
struct rt_lists_tables;
struct rt_lists_level;
// Of a list, with what is needed for its runs of 2^k cells, so that one register has the address of all.
struct rt_head {
  struct rt_link link;
  rt_word but_last;              // of each field of 2^k bits all but the last
  rt_word first;                 // the first bit of each field
  rt_word ones;                  // one field
  rt_word others;                // the bits of a field, less 1
  struct rt_lists_level* level;  // NULL: the top, where no lists are
};
struct rt_lists_level {
  struct rt_head head[RT_RADIX_LOG2];  // head[k]: nodes whose largest free run is of 2^k cells
  unsigned cell_log2;                  // log2 of a cell's bytes
  struct rt_listed* nodes;
  // With cells counted as RT_FIRST_CELL does (lists.h): where cell 0 would be, and where its node of the level below.
  uintptr_t origin;
  uintptr_t children;
  rt_word fours;  // bits whose index is a multiple of 4; 0: the top level, whose node is on no list
  const struct rt_lists_tables* tables;
  size_t cells;
};
struct rt_nodes {
  struct rt_lists_level* level;
  struct rt_lists_level* top;
  struct rt_listed* first;  // all nodes are from here on, all heads before
  const struct rt_lists_tables* tables;
  size_t limit;  // requests are not larger
};

struct coffer_rt {
  unsigned char* base;  // unit 0
  // One region, lists, no hooks, so nothing stands between a call and lists.h: the first size that is too large, less
  // 1, and the bytes from base on. Otherwise 0. With sums the limit is a smallest block: more has a call of its own.
  size_t lists_limit;
  size_t lists_bytes;
  size_t bytes;  // from base on
  unsigned min_log2;
  bool is_plain;  // one region, the tree, no hooks: nothing stands between a call and the tree
  bool sums;
  const struct rt_policy* policy;  // NULL: the tree
  struct coffer_rt* next;          // the next region
  union {
    struct rt_tree tree;
    struct rt_lists lists;
    struct rt_nodes nodes;
  } u;
  size_t alignment;
  size_t region_bytes;
  struct coffer_rt_options options;
};

// The words of a node, and how many of them stand before f.
static inline size_t rt_stride_above(unsigned level) { return ((size_t)level * RT_RADIX_LOG2) + 4U; }
static inline size_t rt_stride(unsigned level) { return level == 0U ? 2U : rt_stride_above(level); }
static inline size_t rt_before(unsigned level) { return level == 0U ? 1U : 2U; }

static inline rt_word* rt_node(const struct coffer_rt* heap, unsigned level, size_t node) {
  return heap->u.tree.level[level].first + (node * rt_stride(level));
}

// What a request becomes: `cells` cells of level `level`, at a multiple of 2^run cells.
struct rt_request {
  unsigned level;
  unsigned run;
  unsigned cells;
};

// tree.c
size_t coffer_rt_tree_words(size_t units);
void coffer_rt_tree_init(struct coffer_rt* heap, rt_word* words);
bool coffer_rt_tree_request(const struct coffer_rt* heap, size_t alignment, size_t size, struct rt_request* request);
void* coffer_rt_tree_take(struct coffer_rt* heap, size_t size);
void* coffer_rt_tree_take_request(struct coffer_rt* heap, const struct rt_request* request);
enum coffer_rt_error coffer_rt_tree_free(struct coffer_rt* heap, const unsigned char* block);
bool coffer_rt_tree_resize(struct coffer_rt* heap, const unsigned char* block, const struct rt_request* request);
size_t coffer_rt_tree_usable_size(const struct coffer_rt* heap, const unsigned char* block);
size_t coffer_rt_tree_largest_free(const struct coffer_rt* heap);

// tree_check.c
int coffer_rt_tree_walk(struct coffer_rt* heap, int (*visit)(void* context, void* block, size_t bytes, int is_live),
                        void* context);
enum coffer_rt_error coffer_rt_tree_check(const struct coffer_rt* heap);

// lists.c, lists_check.c
void* coffer_rt_lists_take_sum(struct coffer_rt* heap, size_t size);
enum coffer_rt_error coffer_rt_lists_blame(const struct coffer_rt* heap, const unsigned char* block,
                                           const struct rt_lists_level* level, size_t cell);
int coffer_rt_lists_walk(struct coffer_rt* heap, int (*visit)(void* context, void* block, size_t bytes, int is_live),
                         void* context);
enum coffer_rt_error coffer_rt_lists_check(const struct coffer_rt* heap);
size_t coffer_rt_lists_words(size_t units);
extern const struct rt_policy coffer_rt_lists;

// in_band.c, first_fit.c
extern const struct rt_policy coffer_rt_knuth;
extern const struct rt_policy coffer_rt_estranged;
extern const struct rt_policy coffer_rt_first_fit;

#endif
