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

// The same of the lists. A node that is on no list has links that mean nothing, which are left out; so are those of the
// levels' heads, one of which is damaged.
static void test_damaged_nodes(void) {
  void* blocks[6];
  struct coffer_rt* heap = make_holes(COFFER_RT_LISTS, blocks);
  const size_t count = (heap->bytes / 16U / RT_RADIX) + 1U;
  CHECK(count > 2U && heap->u.nodes.top == heap->u.nodes.level + 1);
  size_t missed = 0;
  for (size_t i = 0; i < count; ++i) {
    for (unsigned bit = 0; bit < 4U * RT_WORD_BITS; ++bit) {
      heap = make_holes(COFFER_RT_LISTS, blocks);
      struct rt_listed* node = &heap->u.nodes.level->nodes[i];
      if (bit < 2U * RT_WORD_BITS || (node->cells != 0U && node->cells != RT_FULL)) {
        ((rt_word*)node)[bit / RT_WORD_BITS] ^= (rt_word)1 << (bit % RT_WORD_BITS);
        missed += coffer_rt_check(heap) == COFFER_RT_OK ? 1U : 0U;
      }
    }
  }
  CHECK(missed < 2U * RT_WORD_BITS);
  for (unsigned bit = 0; bit < RT_WORD_BITS; ++bit) {
    heap = make_holes(COFFER_RT_LISTS, blocks);
    heap->u.nodes.level->not_empty ^= (rt_word)1 << bit;
    CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
    heap = make_holes(COFFER_RT_LISTS, blocks);
    heap->u.nodes.level->head[1].cells ^= (rt_word)1 << bit;
    CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
    heap = make_holes(COFFER_RT_LISTS, blocks);
    heap->u.nodes.top->nodes->cells ^= (rt_word)1 << bit;
    // A free cell that looks live may as well be so; any other that looks free is not.
    const bool looks_free = ((heap->u.nodes.top->nodes->cells >> bit) & 1U) != 0U;
    CHECK(!looks_free || coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  }
  heap = make_holes(COFFER_RT_LISTS, blocks);
  struct rt_listed* node = heap->u.nodes.level->head[rt_lowest(heap->u.nodes.level->not_empty)].next;
  node->next = node;  // a circle without its head
  CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  node->previous = node;
  CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  for (unsigned way = 0; way < 3U; ++way) {  // on a list, with nothing free, or everything, or another largest run
    heap = make_holes(COFFER_RT_LISTS, blocks);
    const unsigned order = rt_lowest(heap->u.nodes.level->not_empty);
    node = heap->u.nodes.level->head[order].next;
    const rt_word wrong[] = {0, RT_FULL, order == 0U ? 3U : 1U};
    node->cells = wrong[way];
    CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  }
  // A split cell is inside no block, and a block begins in its own node.
  heap = make_holes(COFFER_RT_LISTS, blocks);
  heap->u.nodes.top->nodes->inside ^= (rt_word)1 << (count - 1U);
  CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
  heap = make_holes(COFFER_RT_LISTS, blocks);
  while (coffer_rt_alloc(heap, 16) != NULL) {
  }
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
  heap->u.nodes.level->nodes[0].inside ^= 1U;
  CHECK(coffer_rt_check(heap) == COFFER_RT_CORRUPT);
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

#endif
