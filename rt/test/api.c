// The calls of coffer_rt.h one by one: options, errors, regions, locks, realloc, the four policies.
#include "../src/heap.h"
#include "check.h"

void* memset(void* to, int value, size_t bytes);

#define KIB 1024U

static unsigned char g_region[256U * KIB] __attribute__((aligned(4096)));
static unsigned char g_second[64U * KIB] __attribute__((aligned(64)));

static struct {
  int depth;
  unsigned locks;
  unsigned errors;
  enum coffer_rt_error last;
  const void* block;
} g_seen;

static void lock(void* context) {
  CHECK(context == &g_seen && g_seen.depth == 0);
  ++g_seen.depth;
  ++g_seen.locks;
}

static void unlock(void* context) {
  CHECK(context == &g_seen && g_seen.depth == 1);
  --g_seen.depth;
}

static void on_error(void* context, enum coffer_rt_error error, const void* block) {
  CHECK(context == &g_seen && g_seen.depth == 1);
  ++g_seen.errors;
  g_seen.last = error;
  g_seen.block = block;
}

static struct coffer_rt_options hooked(enum coffer_rt_policy policy) {
  return (struct coffer_rt_options){
      .policy = policy, .lock = lock, .unlock = unlock, .on_error = on_error, .context = &g_seen};
}

static void expect_error(enum coffer_rt_error got, enum coffer_rt_error want, const void* block) {
  CHECK(got == want && g_seen.last == want && g_seen.block == block);
}

static int count_blocks(void* context, void* block, size_t bytes, int is_live) {
  size_t* counts = context;
  CHECK(block != NULL && bytes > 0U);
  ++counts[is_live];
  return 0;
}

static void test_options(void) {
  CHECK(coffer_rt_init(NULL, 1000, NULL) == NULL);
  CHECK(coffer_rt_init(g_region, 10, NULL) == NULL);
  CHECK(coffer_rt_init(g_region, sizeof(struct coffer_rt), NULL) == NULL);
  CHECK(coffer_rt_init(g_region, sizeof(struct coffer_rt) + 20U, NULL) == NULL);
  CHECK(coffer_rt_init(g_region + 1, sizeof(struct coffer_rt) + 8U, NULL) == NULL);
  CHECK(coffer_rt_init(g_region, SIZE_MAX, NULL) == NULL);
  const struct coffer_rt_options wrong[] = {
      {.min_block = 24}, {.min_block = 4}, {.min_block = 131072}, {.policy = COFFER_RT_KNUTH, .min_block = 8},
      {.alignment = 48}, {.lock = lock},   {.unlock = unlock},    {.policy = (enum coffer_rt_policy)4},
  };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
    CHECK(coffer_rt_init(g_region, sizeof(g_region), &wrong[i]) == NULL);
  }
  CHECK(coffer_rt_init(g_region, 0x80000000U, &(struct coffer_rt_options){.policy = COFFER_RT_FIRST_FIT}) == NULL);
  const struct coffer_rt_options aligned = {.alignment = 65536};
  CHECK(coffer_rt_init(g_region + 1, 2000, &aligned) == NULL);
  const struct coffer_rt_options large = {.min_block = 65536};
  CHECK(coffer_rt_init(g_region, 32768, &large) == NULL);
  // Every size and start, to the byte.
  for (size_t bytes = 0; bytes < 3000U; bytes += 7U) {
    const size_t skip = bytes % 13U;
    struct coffer_rt* heap = coffer_rt_init(g_region + skip, bytes, NULL);
    if (heap != NULL) {
      g_region[skip + bytes] = 0xA5;
      size_t counts[2] = {0, 0};
      CHECK(coffer_rt_walk(heap, count_blocks, counts) == 0 && counts[0] > 0U);
      while (coffer_rt_alloc(heap, 1) != NULL) {
      }
      CHECK(coffer_rt_walk(heap, count_blocks, counts) == 0 && counts[1] == heap->bytes / 16U);
      CHECK(coffer_rt_free(heap, g_second) == COFFER_RT_FOREIGN);
      CHECK(coffer_rt_check(heap) == COFFER_RT_OK && g_region[skip + bytes] == 0xA5);
      CHECK((unsigned char*)heap >= g_region + skip && heap->base + heap->bytes <= g_region + skip + bytes);
    }
  }
}

static void test_errors(enum coffer_rt_policy policy) {
  const struct coffer_rt_options options = hooked(policy);
  struct coffer_rt* heap = coffer_rt_init(g_region, sizeof(g_region), &options);
  CHECK(heap != NULL);
  unsigned char* block = coffer_rt_alloc(heap, 100);
  unsigned char* other = coffer_rt_alloc(heap, 100);
  CHECK(block != NULL && other != NULL && coffer_rt_usable_size(heap, block) >= 100U);
  CHECK(coffer_rt_free(heap, NULL) == COFFER_RT_OK);
  g_seen.errors = 0;
  expect_error(coffer_rt_free(heap, g_second), COFFER_RT_FOREIGN, g_second);
  expect_error(coffer_rt_free(heap, g_region), COFFER_RT_FOREIGN, g_region);
  expect_error(coffer_rt_free(heap, heap->base + heap->bytes), COFFER_RT_FOREIGN, heap->base + heap->bytes);
  expect_error(coffer_rt_free(heap, block + 1), COFFER_RT_BAD, block + 1);
  expect_error(coffer_rt_free(heap, block + 16), COFFER_RT_BAD, block + 16);
  CHECK(coffer_rt_usable_size(heap, block + 16) == 0U && coffer_rt_usable_size(heap, g_second) == 0U);
  CHECK(g_seen.errors == 5U);
  CHECK(coffer_rt_free(heap, block) == COFFER_RT_OK);
  const enum coffer_rt_error twice = coffer_rt_free(heap, block);
  CHECK(twice == (policy == COFFER_RT_FIRST_FIT ? COFFER_RT_BAD : COFFER_RT_DOUBLE));
  CHECK(coffer_rt_free(heap, other) == COFFER_RT_OK);
  CHECK(coffer_rt_realloc(heap, block, 10) == NULL && g_seen.last == COFFER_RT_BAD);
  CHECK(coffer_rt_realloc(heap, g_second, 10) == NULL && g_seen.last == COFFER_RT_FOREIGN);
  CHECK(coffer_rt_alloc(heap, SIZE_MAX) == NULL && coffer_rt_alloc(heap, sizeof(g_region)) == NULL);
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK && g_seen.depth == 0);
}

static int stop_at_once(void* context, void* block, size_t bytes, int is_live) {
  (void)context;
  (void)block;
  (void)bytes;
  (void)is_live;
  return 7;
}

// Fills a heap with blocks of all sizes, checks their contents, and empties it in another order.
static void test_contents(enum coffer_rt_policy policy, int sums) {
  struct coffer_rt_options options = hooked(policy);
  options.sums = sums;
  struct coffer_rt* heap = coffer_rt_init(g_region, sizeof(g_region), &options);
  CHECK(heap != NULL);
  static unsigned char* blocks[4096];
  static size_t sizes[4096];
  size_t count = 0;
  uint64_t state = 7;
  size_t largest = coffer_rt_largest_free(heap);
  CHECK(largest > 100U * KIB);
  for (unsigned round = 0; round < 20000U; ++round) {
    const size_t size = rt_random(&state) % (1U + ((size_t)1 << (rt_random(&state) % 12U)));
    if ((round / 2000U) % 2U == 0U && count < 4096U) {
      unsigned char* block = coffer_rt_alloc(heap, size);
      if (block != NULL) {
        const size_t usable = coffer_rt_usable_size(heap, block);
        CHECK(usable >= size);
        for (size_t i = 0; i < usable; ++i) {
          block[i] = (unsigned char)(count * 7U);
        }
        sizes[count] = usable;
        blocks[count] = block;
        ++count;
      } else {
        CHECK(coffer_rt_largest_free(heap) < (size == 0U ? 1U : size));
      }
    } else if (count > 0U) {
      const size_t i = rt_random(&state) % count;
      --count;
      CHECK(blocks[i][0] == blocks[i][sizes[i] - 1U]);
      CHECK(coffer_rt_free(heap, blocks[i]) == COFFER_RT_OK);
      blocks[i] = blocks[count];
      sizes[i] = sizes[count];
    }
  }
  size_t counts[2] = {0, 0};
  CHECK(coffer_rt_walk(heap, count_blocks, counts) == 0 && counts[1] == count && counts[0] > 0U);
  CHECK(coffer_rt_walk(heap, stop_at_once, NULL) == 7);
  struct coffer_rt_stats stats;
  coffer_rt_stats(heap, &stats);
  CHECK(stats.live_blocks == count && stats.region_bytes == sizeof(g_region));
  CHECK(stats.heap_bytes + stats.metadata_bytes == stats.region_bytes);
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
  while (count > 0U) {
    --count;
    CHECK(coffer_rt_free(heap, blocks[count]) == COFFER_RT_OK);
  }
  coffer_rt_panic(heap);
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK && coffer_rt_largest_free(heap) == largest);
}

// Six blocks, every second one freed again.
static struct coffer_rt* make_holes(enum coffer_rt_policy policy, void** blocks) {
  const struct coffer_rt_options options = hooked(policy);
  struct coffer_rt* heap = coffer_rt_init(g_region, 5000, &options);
  for (size_t n = 0; n < 6U; ++n) {
    blocks[n] = coffer_rt_alloc(heap, 24);
  }
  for (size_t n = 0; n < 6U; n += 2U) {
    CHECK(coffer_rt_free(heap, blocks[n]) == COFFER_RT_OK);
  }
  return heap;
}

// Every bit of the tree's state, one after the other, is turned over. Most of that is damage that coffer_rt_check
// finds; the rest makes a live unit free or the other way round, which may as well be so.
static void test_damaged_tree(void) {
  void* blocks[6];
  struct coffer_rt* heap = make_holes(COFFER_RT_TREE, blocks);
  const size_t count = coffer_rt_tree_words(heap->bytes / 16U);
  size_t missed = 0;
  for (size_t i = 0; i < count; ++i) {
    for (unsigned bit = 0; bit < RT_WORD_BITS; ++bit) {
      heap = make_holes(COFFER_RT_TREE, blocks);
      (heap->u.tree.level[0].first - 1)[i] ^= (rt_word)1 << bit;
      missed += coffer_rt_check(heap) == COFFER_RT_OK ? 1U : 0U;
    }
  }
  CHECK(missed < 6U * RT_WORD_BITS && count > 8U);
}

// A header or link that is overwritten is found by coffer_rt_check, and frees of such blocks are refused.
static void test_damaged_headers(enum coffer_rt_policy policy) {
  void* blocks[6];
  unsigned found = 0;
  const size_t before = policy == COFFER_RT_FIRST_FIT ? 8U : 4U;  // where a block's header is
  for (size_t i = 0; i < 18U; ++i) {
    for (unsigned bit = 0; bit < 32U; ++bit) {
      struct coffer_rt* heap = make_holes(policy, blocks);
      ((uint32_t*)(void*)((unsigned char*)blocks[i % 6U] - before))[i / 6U] ^= (uint32_t)1 << bit;
      found += coffer_rt_check(heap) == COFFER_RT_CORRUPT ? 1U : 0U;
    }
  }
  CHECK(found > 150U);
  struct coffer_rt* heap = make_holes(policy, blocks);
  CHECK(coffer_rt_free(heap, heap->base) == COFFER_RT_BAD);
  uint32_t* header = (uint32_t*)(void*)((unsigned char*)blocks[1] - before);
  static const uint32_t sizes[] = {8, 48, 64, 4096, 0x40000000};
  for (size_t i = 0; i < 5U; ++i) {
    const uint32_t right = *header;
    *header = sizes[i];
    CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
    CHECK(policy == COFFER_RT_FIRST_FIT || coffer_rt_free(heap, blocks[1]) == COFFER_RT_BAD);
    *header = right;
  }
  *header = 0;
  size_t counts[2] = {0, 0};
  CHECK(coffer_rt_walk(heap, count_blocks, counts) == 0);
  CHECK(coffer_rt_free(heap, blocks[1]) == COFFER_RT_BAD);
  *header = 0x7FFFFFF0;
  CHECK(coffer_rt_free(heap, blocks[1]) == COFFER_RT_BAD);
  // Sizes that lead out of the heap, at every place.
  for (size_t at = 0; at + 32U <= heap->bytes; at += 16U) {
    memset(heap->base, 0, heap->bytes);
    for (unsigned k = 5; k < 31U; ++k) {
      uint32_t* words = (uint32_t*)(void*)(heap->base + at);
      words[0] = (uint32_t)1 << k;
      words[1] = 0xFFFFFFFEU;
      CHECK(coffer_rt_usable_size(heap, heap->base + at + before) <= heap->bytes - at);
    }
  }
}

// Lists that lead out of the heap, in a circle, or to nothing while there are free blocks.
static void test_damaged_lists(enum coffer_rt_policy policy) {
  void* blocks[6];
  struct coffer_rt* heap = make_holes(policy, blocks);
  uint32_t* lists[2] = {heap->u.lists.busy, heap->u.lists.pairs};
  for (size_t list = 0; list < (policy == COFFER_RT_FIRST_FIT ? 1U : 2U); ++list) {
    for (unsigned k = 0; k < (policy == COFFER_RT_FIRST_FIT ? 1U : 31U); ++k) {
      static const uint32_t wrong[] = {RT_NOTHING, 0, 32, 64, 96, 4096, 0x10000};
      for (size_t i = 0; i < 7U; ++i) {
        const uint32_t right = lists[list][k];
        lists[list][k] = wrong[i];
        CHECK(wrong[i] == right || coffer_rt_check(heap) == COFFER_RT_CORRUPT);
        lists[list][k] = right;
      }
    }
  }
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
  if (policy == COFFER_RT_FIRST_FIT) {
    uint32_t* last = (uint32_t*)(void*)heap->base;
    while (last[0] + (size_t)((unsigned char*)last - heap->base) < heap->bytes) {
      last += last[0] / sizeof(uint32_t);
    }
    last[1] = 0x10000;
    CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  } else {
    heap->u.lists.not_empty ^= 1U << 5U;
    CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
    heap = make_holes(policy, blocks);
    uint32_t* last = (uint32_t*)(void*)(heap->base + heap->u.lists.busy[5]);
    while (last[2] != RT_NOTHING) {
      last = (uint32_t*)(void*)(heap->base + last[2]);
    }
    last[2] = heap->u.lists.busy[5];  // a circle whose `previous` is wrong
    CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
    ((uint32_t*)(void*)(heap->base + heap->u.lists.busy[5]))[1] = (uint32_t)((unsigned char*)last - heap->base);
    CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  }
}

// Pairs on a list that is a circle, or whose right buddy is not free.
static void test_damaged_pairs(void) {
  const struct coffer_rt_options options = hooked(COFFER_RT_ESTRANGED);
  struct coffer_rt* heap = coffer_rt_init(g_region, 5000, &options);
  void* blocks[4];
  for (size_t n = 0; n < 4U; ++n) {
    blocks[n] = coffer_rt_alloc(heap, 24);
  }
  for (size_t n = 0; n < 4U; ++n) {
    CHECK(coffer_rt_free(heap, blocks[n]) == COFFER_RT_OK);
  }
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK && heap->u.lists.pairs[5] != RT_NOTHING);
  uint32_t* pair = (uint32_t*)(void*)(heap->base + heap->u.lists.pairs[5]);
  const uint32_t next = pair[2];
  pair[2] = heap->u.lists.pairs[5];
  CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  pair[2] = next;
  const uint32_t right = heap->u.lists.pairs[5];
  heap->u.lists.pairs[5] = right + 32U;
  CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  heap->u.lists.pairs[5] = right;
  ((uint32_t*)(void*)(heap->base + (right ^ 32U)))[0] = 32;
  CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
}

static void test_aligned(void) {
  const struct coffer_rt_options options = hooked(COFFER_RT_TREE);
  struct coffer_rt* heap = coffer_rt_init(g_region + 100, sizeof(g_region) - 100U, &options);
  struct coffer_rt_stats stats;
  coffer_rt_stats(heap, &stats);
  CHECK(stats.alignment == 2048U);
  for (size_t alignment = 1; alignment <= stats.alignment; alignment *= 2U) {
    void* small = coffer_rt_alloc(heap, 1);
    unsigned char* block = coffer_rt_alloc_aligned(heap, alignment, 40);
    CHECK(small != NULL && block != NULL && ((uintptr_t)block & (alignment - 1U)) == 0U);
  }
  CHECK(coffer_rt_alloc_aligned(heap, 4096, 1) == NULL && g_seen.last == COFFER_RT_ARGUMENT);
  CHECK(coffer_rt_alloc_aligned(heap, 24, 1) == NULL && coffer_rt_alloc_aligned(heap, 0, 1) == NULL);
  CHECK(coffer_rt_alloc_aligned(heap, 16, SIZE_MAX) == NULL);
  CHECK(coffer_rt_alloc_aligned(heap, 16, sizeof(g_region)) == NULL);
  struct coffer_rt* knuth =
      coffer_rt_init(g_second, sizeof(g_second), &(struct coffer_rt_options){.policy = COFFER_RT_KNUTH});
  CHECK(coffer_rt_alloc_aligned(knuth, 16, 1) == NULL);
  const struct coffer_rt_options sums = {.sums = 1, .on_error = on_error, .context = &g_seen};
  struct coffer_rt* other = coffer_rt_init(g_second, sizeof(g_second), &sums);
  CHECK(coffer_rt_alloc(other, SIZE_MAX) == NULL && coffer_rt_alloc_aligned(other, 64, 40) != NULL);
  // Blocks are aligned to their size.
  for (size_t size = 16; size <= 2048U; size *= 2U) {
    void* block = coffer_rt_alloc(heap, size);
    CHECK(((uintptr_t)block & (size - 1U)) == 0U);
  }
}

static void test_regions(void) {
  const struct coffer_rt_options options = hooked(COFFER_RT_TREE);
  struct coffer_rt* heap = coffer_rt_init(g_region, 8U * KIB, &options);
  CHECK(coffer_rt_add_region(heap, g_second, 16) == COFFER_RT_ARGUMENT);
  CHECK(coffer_rt_add_region(heap, g_second, 32U * KIB) == COFFER_RT_OK);
  CHECK(coffer_rt_add_region(heap, g_region + (64U * KIB), 64U * KIB) == COFFER_RT_OK);
  unsigned char* in_second = coffer_rt_alloc(heap, 8U * KIB);
  CHECK(in_second > g_second && in_second < g_second + sizeof(g_second));
  unsigned char* in_third = coffer_rt_alloc_aligned(heap, 16, 32U * KIB);
  CHECK(in_third > g_region + (64U * KIB));
  CHECK(coffer_rt_largest_free(heap) == 16U * KIB);
  size_t counts[2] = {0, 0};
  CHECK(coffer_rt_walk(heap, count_blocks, counts) == 0 && counts[1] == 2U);
  struct coffer_rt_stats stats;
  coffer_rt_stats(heap, &stats);
  CHECK(stats.region_bytes == 104U * KIB && stats.live_bytes == 40U * KIB && stats.live_blocks == 2U);
  CHECK(coffer_rt_free(heap, in_second) == COFFER_RT_OK && coffer_rt_free(heap, in_third) == COFFER_RT_OK);
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
}

static void test_realloc(int sums) {
  struct coffer_rt_options options = hooked(COFFER_RT_TREE);
  options.sums = sums;
  struct coffer_rt* heap = coffer_rt_init(g_region, 64U * KIB, &options);
  unsigned char* block = coffer_rt_realloc(heap, NULL, 10);
  CHECK(block == heap->base);
  for (unsigned i = 0; i < 10U; ++i) {
    block[i] = (unsigned char)i;
  }
  const struct rt_request request = {0, 0, 1};
  CHECK(!coffer_rt_tree_resize(heap, block + 1, &request));
  // Alone in the heap, it grows and shrinks where it stands, through all levels.
  size_t size = 16;
  for (; size <= coffer_rt_largest_free(heap); size *= 2U) {
    CHECK(coffer_rt_realloc(heap, block, size) == block && coffer_rt_check(heap) == COFFER_RT_OK);
  }
  CHECK(coffer_rt_realloc(heap, block, 64U * KIB) == NULL && coffer_rt_realloc(heap, block, SIZE_MAX) == NULL &&
        coffer_rt_realloc(heap, block, (size_t)1 << 30U) == NULL);
  CHECK(coffer_rt_usable_size(heap, block) == size / 2U);
  for (; size >= 16U; size /= 2U) {
    CHECK(coffer_rt_realloc(heap, block, size) == block && coffer_rt_usable_size(heap, block) == size);
  }
  // With a neighbour it moves, contents and all; when nothing is left it stays.
  unsigned char* neighbour = coffer_rt_alloc(heap, 16);
  CHECK(neighbour == block + 16);
  unsigned char* moved = coffer_rt_realloc(heap, block, 40);
  CHECK(moved != block && moved != NULL);
  for (unsigned i = 0; i < 10U; ++i) {
    CHECK(moved[i] == (unsigned char)i);
  }
  while (coffer_rt_alloc(heap, 16) != NULL) {
  }
  CHECK(coffer_rt_realloc(heap, neighbour, 32) == NULL && coffer_rt_usable_size(heap, neighbour) == 16U);
  CHECK(coffer_rt_realloc(heap, moved, 16) == moved);
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
}

static void test_realloc_in_band(enum coffer_rt_policy policy) {
  const struct coffer_rt_options options = hooked(policy);
  struct coffer_rt* heap = coffer_rt_init(g_region, 16U * KIB, &options);
  unsigned char* block = coffer_rt_alloc(heap, 50);
  block[49] = 9;
  CHECK(coffer_rt_realloc(heap, block, 20) == block);
  unsigned char* moved = coffer_rt_realloc(heap, block, 300);
  CHECK(moved != NULL && moved[49] == 9);
  CHECK(coffer_rt_realloc(heap, moved, 16U * KIB) == NULL && moved[49] == 9);
  CHECK(coffer_rt_free(heap, moved) == COFFER_RT_OK && coffer_rt_check(heap) == COFFER_RT_OK);
}

// What the Estranged Buddy cannot do as published: a heap that was full of small blocks and is empty again refuses the
// second size up, till it panics. The tree and Knuth's buddy serve it.
static void test_stranded(enum coffer_rt_policy policy) {
  const struct coffer_rt_options options = hooked(policy);
  struct coffer_rt* heap = coffer_rt_init(g_region, 128U * KIB, &options);
  static void* blocks[8192];
  size_t count = 0;
  while ((blocks[count] = coffer_rt_alloc(heap, 12)) != NULL) {
    ++count;
  }
  for (size_t i = 0; i < count; ++i) {
    CHECK(coffer_rt_free(heap, blocks[i]) == COFFER_RT_OK);
  }
  CHECK(coffer_rt_alloc(heap, 28) != NULL);
  const bool is_stranded = coffer_rt_alloc(heap, 60) == NULL;
  CHECK(is_stranded == (policy == COFFER_RT_ESTRANGED));
  coffer_rt_panic(heap);
  CHECK(coffer_rt_alloc(heap, 60) != NULL && coffer_rt_alloc(heap, 8U * KIB) != NULL);
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
}

// A region of the computed size serves a load that uses it up: singles, then what they leave room for.
static void test_region_bytes(void) {
  const struct coffer_rt_load load = {.live_bytes = 4096, .smallest = 16, .largest = 64, .alignment = 64};
  const size_t bytes = coffer_rt_region_bytes(&load);
  CHECK(bytes > 0U && bytes < sizeof(g_region));
  const struct coffer_rt_options options = {.alignment = 64};
  struct coffer_rt* heap = coffer_rt_init(g_region + 3, bytes, &options);
  CHECK(heap != NULL);
  static void* singles[256];
  for (size_t i = 0; i < 256U; ++i) {
    singles[i] = coffer_rt_alloc(heap, 16);
    CHECK(singles[i] != NULL);
  }
  for (size_t i = 0; i < 256U; ++i) {
    if (i % 4U != 0U) {
      CHECK(coffer_rt_free(heap, singles[i]) == COFFER_RT_OK);
    }
  }
  for (size_t i = 0; i < 48U; ++i) {
    CHECK(coffer_rt_alloc(heap, 64) != NULL);
  }
}

int main(void) {
  test_options();
  static const enum coffer_rt_policy policies[] = {COFFER_RT_TREE, COFFER_RT_KNUTH, COFFER_RT_ESTRANGED,
                                                   COFFER_RT_FIRST_FIT};
  for (size_t i = 0; i < 4U; ++i) {
    test_errors(policies[i]);
    test_contents(policies[i], 0);
    if (policies[i] != COFFER_RT_TREE) {
      test_damaged_headers(policies[i]);
      test_damaged_lists(policies[i]);
    }
    test_stranded(policies[i]);
  }
  test_damaged_tree();
  test_damaged_pairs();
  test_contents(COFFER_RT_TREE, 1);
  test_realloc_in_band(COFFER_RT_KNUTH);
  test_realloc_in_band(COFFER_RT_FIRST_FIT);
  test_aligned();
  test_regions();
  test_realloc(0);
  test_realloc(1);
  test_region_bytes();
  rt_put("all calls do what coffer_rt.h says\n");
  return 0;
}
