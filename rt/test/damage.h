/* SPDX-License-Identifier: MIT */
// Part of api.c: state that is overwritten is found by coffer_rt_check, and does no harm to frees.
#ifndef COFFER_RT_TEST_DAMAGE_H
#define COFFER_RT_TEST_DAMAGE_H

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

// A cell that is inside a block without a beginning, or behind the heap's end as part of its last block, is found: a
// free of that block would give out what lies behind the heap.
static void test_damaged_insides(void) {
  void* blocks[6];
  struct coffer_rt* heap = make_holes(COFFER_RT_TREE, blocks);
  for (unsigned level = 0; level <= heap->u.tree.top; ++level) {
    const size_t cells = heap->u.tree.level[level].cells;
    const size_t last = heap->u.tree.level[level].nodes - 1U;
    rt_word* node = rt_node(heap, level, last);
    CHECK(cells % RT_RADIX != 0U);
    for (size_t cell = cells - (last << RT_RADIX_LOG2); cell < RT_RADIX; ++cell) {
      node[-1] ^= (rt_word)1 << cell;
      CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
      node[-1] ^= (rt_word)1 << cell;
    }
    rt_word* first = rt_node(heap, level, 0);
    first[-1] ^= 1U;  // a block begins in its own node
    CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
    first[-1] ^= 1U;
  }
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
}

// How often coffer_rt_check finds nothing when a bit of some words of a heap with lists is turned over; which words, is
// told as their distance from the lowest level.
static size_t count_missed(size_t first, size_t words) {
  void* blocks[6];
  size_t missed = 0;
  for (size_t bit = 0; bit < words * RT_WORD_BITS; ++bit) {
    struct coffer_rt* heap = make_holes(COFFER_RT_LISTS, blocks);
    ((rt_word*)(void*)heap->u.nodes.level)[first + (bit / RT_WORD_BITS)] ^= (rt_word)1 << (bit % RT_WORD_BITS);
    missed += coffer_rt_check(heap) == COFFER_RT_OK ? 1U : 0U;
  }
  return missed;
}

static size_t words_between(const void* first, const void* last) {
  return (size_t)((uintptr_t)last - (uintptr_t)first) / sizeof(rt_word);
}

// The same of the lists' nodes and heads. The links of a node that is all free mean nothing.
static void test_damaged_nodes(void) {
  void* blocks[6];
  struct coffer_rt* heap = make_holes(COFFER_RT_LISTS, blocks);
  struct rt_lists_level* level = heap->u.nodes.level;
  struct rt_listed* top = heap->u.nodes.top->nodes;
  const size_t count = (heap->bytes / 16U / RT_RADIX) + 1U;
  CHECK(count > 2U && heap->u.nodes.top == level + 1 && sizeof(struct rt_listed) == 4U * sizeof(rt_word));
  size_t missed = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t skipped = level->nodes[i].used == 0U ? 2U : 0U;
    missed += count_missed(words_between(level, &level->nodes[i]) + skipped, 4U - skipped);
  }
  CHECK(missed < 2U * RT_WORD_BITS);
  for (unsigned k = 0; k < RT_RADIX_LOG2; ++k) {
    CHECK(count_missed(words_between(level, &level->head[k].link.next), 1) == 0U);
    CHECK(k == 0U || count_missed(words_between(level, &level->head[k].link.previous), 1) == 0U);
    CHECK(count_missed(words_between(level, &level->head[k].but_last), 5) == 0U);
    CHECK(count_missed(words_between(level, &level[1].head[k].link.next), 1) == 0U);
    CHECK(count_missed(words_between(level, &level[1].head[k].but_last), 5) == 0U);
  }
  CHECK(count_missed(words_between(level, &top->link.previous), 1) == 0U);
  for (unsigned bit = 0; bit < RT_WORD_BITS; ++bit) {
    heap = make_holes(COFFER_RT_LISTS, blocks);
    top->used ^= (rt_word)1 << bit;
    // A free cell that looks live may as well be so; any other that looks free is not.
    const bool looks_free = ((top->used >> bit) & 1U) == 0U;
    CHECK(!looks_free || coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  }
  for (unsigned way = 0; way < 3U; ++way) {  // on a list, with nothing free, or everything, or another largest run
    heap = make_holes(COFFER_RT_LISTS, blocks);
    unsigned order = 0;
    while ((uintptr_t)level->head[order].link.next < (uintptr_t)heap->u.nodes.first) {
      ++order;
    }
    struct rt_listed* node = (struct rt_listed*)(void*)level->head[order].link.next;
    const rt_word wrong[] = {0, RT_FULL, order == 0U ? RT_FULL & ~(rt_word)3 : RT_FULL - 1U};
    node->used = wrong[way];
    CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
    node->link.next = &node->link;  // a circle without its head
    CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
    node->link.previous = &node->link;
    CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  }
  // A split cell is no part of a block, and a block ends in its own node.
  heap = make_holes(COFFER_RT_LISTS, blocks);
  CHECK(count_missed(words_between(level, &top->goes_on), 1) == 0U);
  const struct coffer_rt_options options = hooked(COFFER_RT_LISTS);
  heap = coffer_rt_init(g_region, 5000, &options);
  while (coffer_rt_alloc(heap, 16U * RT_RADIX) != NULL) {
  }
  top->goes_on ^= (rt_word)1 << (count - 2U);  // into the last cell, which is split, for not all of it is there
  CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  heap = make_holes(COFFER_RT_LISTS, blocks);
  while (coffer_rt_alloc(heap, 16) != NULL) {
  }
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
  level->nodes[0].goes_on ^= (rt_word)1 << (RT_RADIX - 1U);
  CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  level->nodes[0].goes_on = 0;
  level->nodes[0].link.next = &level->nodes[1].link;  // on no list, but led to one
  CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
}

// The largest run that the calls find by a multiplication and a table, against the one that bits.h finds step by step:
// with each group of four cells free, used, or used in part.
static void test_largest_runs(void) {
  const struct coffer_rt_options options = hooked(COFFER_RT_LISTS);
  struct rt_lists_level* level = coffer_rt_init(g_region, 5000, &options)->u.nodes.level;
  uint64_t state = 1;
  for (unsigned i = 0; i < 100000U; ++i) {
    rt_word used = 0;
    for (unsigned at = 0; at < RT_WORD_BITS; at += 4U) {
      const unsigned kind = (unsigned)(rt_random(&state) % 4U);
      used |= (rt_word)(kind < 2U ? 0U : (kind == 2U ? 15U : rt_random(&state) % 16U)) << at;
    }
    if (used != 0U && used != RT_FULL) {
      CHECK(rt_class_list(level, used, false) == &level->head[rt_largest_run(~used)].link);
      CHECK(rt_class_list(level, used, true) == rt_class_list(level, used, false));
    }
  }
  CHECK(rt_class_list(level + 1, 1, true) == NULL && rt_class_list(level + 1, RT_FULL, true) == NULL);
}

static int see_inside(void* context, void* block, size_t bytes, int is_live) {
  const struct coffer_rt* heap = context;
  const size_t offset = (size_t)((unsigned char*)block - heap->base);
  CHECK(offset < heap->bytes && bytes <= heap->bytes - offset && (is_live == 0 || is_live == 1));
  return 0;
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
      CHECK(coffer_rt_walk(heap, see_inside, heap) == 0);
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

#endif
