// SPDX-License-Identifier: MIT
// The calls of coffer_rt.h one by one: options, errors, regions, locks, realloc, all policies.
#include "../src/lists.h"
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
      {.min_block = 24},
      {.min_block = 4},
      {.min_block = 131072},
      {.policy = COFFER_RT_KNUTH, .min_block = 8},
      {.alignment = 48},
      {.lock = lock},
      {.unlock = unlock},
      {.policy = (enum coffer_rt_policy)5},
      {.policy = COFFER_RT_KNUTH, .sums = 1},
      {.policy = COFFER_RT_LISTS, .min_block = 4},
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
  for (size_t bytes = 0; bytes < 6000U; bytes += 7U) {
    const size_t skip = bytes % 13U;
    const struct coffer_rt_options plain = {.policy = bytes % 2U == 0U ? COFFER_RT_TREE : COFFER_RT_LISTS};
    struct coffer_rt* heap = coffer_rt_init(g_region + skip, bytes, &plain);
    if (heap != NULL) {
      g_region[skip + bytes] = 0xA5;
      size_t counts[2] = {0, 0};
      CHECK(coffer_rt_walk(heap, count_blocks, counts) == 0 && counts[0] > 0U);
      CHECK(coffer_rt_alloc(heap, SIZE_MAX) == NULL && coffer_rt_alloc(heap, SIZE_MAX / 2U) == NULL);
      while (coffer_rt_alloc(heap, bytes % 3U == 0U ? 0 : 1) != NULL) {
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

#include "damage.h"

static void test_aligned(enum coffer_rt_policy policy) {
  const struct coffer_rt_options options = hooked(policy);
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

static void test_regions(enum coffer_rt_policy policy, bool has_hooks) {
  const struct coffer_rt_options plain = {.policy = policy};
  const struct coffer_rt_options options = has_hooks ? hooked(policy) : plain;
  struct coffer_rt* heap = coffer_rt_init(g_region, 8U * KIB, &options);
  CHECK(coffer_rt_add_region(heap, g_second, 16) == COFFER_RT_ARGUMENT);
  CHECK(coffer_rt_add_region(heap, g_second, 32U * KIB) == COFFER_RT_OK);
  CHECK(coffer_rt_add_region(heap, g_region + (64U * KIB), 64U * KIB) == COFFER_RT_OK);
  // Memory that the heap has already, in part or as a whole, and the other way round.
  CHECK(coffer_rt_add_region(heap, g_region, 8U * KIB) == COFFER_RT_ARGUMENT);
  CHECK(coffer_rt_add_region(heap, g_second + (16U * KIB), 64) == COFFER_RT_ARGUMENT);
  CHECK(coffer_rt_add_region(heap, g_region + (63U * KIB), 2U * KIB) == COFFER_RT_ARGUMENT);
  CHECK(coffer_rt_add_region(heap, NULL, 64U * KIB) == COFFER_RT_ARGUMENT && coffer_rt_check(heap) == COFFER_RT_OK);
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

static void test_realloc(enum coffer_rt_policy policy, int sums) {
  struct coffer_rt_options options = hooked(policy);
  options.sums = sums;
  struct coffer_rt* heap = coffer_rt_init(g_region, 64U * KIB, &options);
  unsigned char* block = coffer_rt_realloc(heap, NULL, 10);
  if (block != heap->base) {  // a region's last cells, which are less than a power of two, come first
    CHECK(policy == COFFER_RT_LISTS);
    while (block != heap->base) {
      block = coffer_rt_realloc(heap, NULL, 16);
      CHECK(block != NULL);
    }
  }
  for (unsigned i = 0; i < 10U; ++i) {
    block[i] = (unsigned char)i;
  }
  const struct rt_request request = {0, 0, 1};
  CHECK(policy != COFFER_RT_TREE || !coffer_rt_tree_resize(heap, block + 1, &request));
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
  while (policy == COFFER_RT_LISTS && neighbour != block + 16) {
    neighbour = coffer_rt_alloc(heap, 16);
  }
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
// second size up, till it panics. The others serve it.
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
  // What coffer_rt_init refuses is not called large enough.
  static const struct coffer_rt_load wrong[] = {
      {.live_bytes = 1000, .smallest = 1, .largest = 100, .min_block = 4},
      {.live_bytes = 1000, .smallest = 1, .largest = 100, .min_block = 24},
      {.live_bytes = 1000, .smallest = 1, .largest = 100, .min_block = 131072},
      {.live_bytes = 1000, .smallest = 1, .largest = 100, .alignment = 3},
      {.live_bytes = 1000, .smallest = 1, .largest = 100, .alignment = SIZE_MAX},
  };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
    CHECK(coffer_rt_region_bytes(&wrong[i]) == 0U);
  }
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

// Where the load leaves the alignment to the heap, it costs what the heap spends on it, not the most that it ever may;
// and a region that is larger than computed does not hold less for a larger alignment.
static void test_region_bytes_of_any_alignment(enum coffer_rt_policy policy) {
  const struct coffer_rt_options options = {.policy = policy};
  for (size_t live = 64; live <= 16U * KIB; live *= 2U) {
    struct coffer_rt_load load = {.live_bytes = live, .smallest = 64, .largest = 64, .policy = policy};
    const size_t bytes = coffer_rt_region_bytes(&load);
    load.alignment = 16;
    const size_t least = coffer_rt_region_bytes(&load);
    CHECK(bytes >= least && bytes - least <= (least / 50U) + 16U);
    for (size_t more = 0; more <= bytes; more += 1U + (bytes / 200U)) {
      struct coffer_rt* heap = coffer_rt_init(g_region + 1U + (more % 64U), bytes + more, &options);
      CHECK(heap != NULL);
      struct coffer_rt_stats stats;
      coffer_rt_stats(heap, &stats);
      CHECK(stats.heap_bytes >= live);
    }
  }
}

int main(void) {
  test_options();
  static const enum coffer_rt_policy policies[] = {COFFER_RT_TREE, COFFER_RT_KNUTH, COFFER_RT_ESTRANGED,
                                                   COFFER_RT_FIRST_FIT, COFFER_RT_LISTS};
  for (size_t i = 0; i < 5U; ++i) {
    test_errors(policies[i]);
    test_contents(policies[i], 0);
    if (policies[i] != COFFER_RT_TREE && policies[i] != COFFER_RT_LISTS) {
      test_damaged_headers(policies[i]);
      test_damaged_lists(policies[i]);
    }
    test_stranded(policies[i]);
  }
  test_damaged_tree();
  test_damaged_insides();
  test_damaged_pairs();
  test_contents(COFFER_RT_TREE, 1);
  test_contents(COFFER_RT_LISTS, 1);
  test_realloc_in_band(COFFER_RT_KNUTH);
  test_realloc_in_band(COFFER_RT_FIRST_FIT);
  test_damaged_nodes();
  test_largest_runs();
  test_aligned(COFFER_RT_TREE);
  test_aligned(COFFER_RT_LISTS);
  for (size_t i = 0; i < 2U; ++i) {
    test_regions(COFFER_RT_TREE, i == 0U);
    test_regions(COFFER_RT_LISTS, i == 0U);
  }
  test_realloc(COFFER_RT_TREE, 0);
  test_realloc(COFFER_RT_TREE, 1);
  test_realloc(COFFER_RT_LISTS, 0);
  test_realloc(COFFER_RT_LISTS, 1);
  test_region_bytes();
  test_region_bytes_of_any_alignment(COFFER_RT_TREE);
  test_region_bytes_of_any_alignment(COFFER_RT_LISTS);
  rt_put("all calls do what coffer_rt.h says\n");
  return 0;
}
