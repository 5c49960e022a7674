// SPDX-License-Identifier: MIT
// Random calls against a model, on full-size words: random [operations [seed]].
//
// The model is Knuth's buddy system with sorted free lists, one bit a block, all buddies joined at once. Serving each
// request at the lowest address of all free blocks that are large enough, it must agree with the tree in every address.
// The policy with lists chooses others: it must give out free blocks only, and refuse only what Knuth's refuses. With
// sums of powers of two, Knuth's system gets the tail of each block back, in blocks of its own.
#include "../src/heap.h"
#include "check.h"

#define UNITS 16384U
#define ORDERS 15U
#define MAX_LIVE UNITS
#define NONE UNITS

// free_blocks[k]: bit b is set if the block of 2^k units at b * 2^k is free, and not half of a larger free one.
static uint64_t g_free[ORDERS][UNITS / 64U];
static uint16_t g_units[UNITS];    // of the live block that begins here
static uint32_t g_live[MAX_LIVE];  // the units where live blocks begin
static size_t g_live_count;
static uint64_t g_state;

static bool get(unsigned order, size_t block) { return ((g_free[order][block / 64U] >> (block % 64U)) & 1U) != 0U; }
static void flip(unsigned order, size_t block) { g_free[order][block / 64U] ^= (uint64_t)1 << (block % 64U); }

static size_t first_free(unsigned order) {
  const size_t words = ((UNITS >> order) + 63U) / 64U;
  for (size_t i = 0; i < words; ++i) {
    if (g_free[order][i] != 0U) {
      size_t bit = 0;
      while (((g_free[order][i] >> bit) & 1U) == 0U) {
        ++bit;
      }
      return ((i * 64U) + bit) << order;
    }
  }
  return NONE;
}

static size_t model_alloc(unsigned order) {
  size_t best = NONE;
  unsigned from = 0;
  for (unsigned k = order; k < ORDERS; ++k) {
    const size_t unit = first_free(k);
    if (unit < best) {
      best = unit;
      from = k;
    }
  }
  if (best != NONE) {
    flip(from, best >> from);
    while (from > order) {
      --from;
      flip(from, (best >> from) + 1U);
    }
  }
  return best;
}

// The other policy takes what it likes: Knuth's system gives it just these units, if it has them.
static bool model_has(unsigned order) {
  unsigned k = order;
  while (k < ORDERS && first_free(k) == NONE) {
    ++k;
  }
  return k < ORDERS;
}

static void model_take(size_t unit, unsigned order) {
  unsigned from = order;
  while (from < ORDERS && !get(from, unit >> from)) {
    ++from;
  }
  CHECK(from < ORDERS);
  flip(from, unit >> from);
  while (from > order) {
    --from;
    flip(from, (unit >> from) ^ 1U);
  }
}

static void model_free(size_t unit, unsigned order) {
  while (order + 1U < ORDERS && get(order, (unit >> order) ^ 1U)) {
    flip(order, (unit >> order) ^ 1U);
    unit &= ~((size_t)1 << order);
    ++order;
  }
  flip(order, unit >> order);
}

// Frees any units, as the blocks that they are made of.
static void model_free_all(size_t unit, size_t units) {
  while (units > 0U) {
    unsigned order = 0;
    while (order + 1U < ORDERS && ((size_t)2U << order) <= units && (unit & (((size_t)2U << order) - 1U)) == 0U) {
      ++order;
    }
    model_free(unit, order);
    unit += (size_t)1 << order;
    units -= (size_t)1 << order;
  }
}

static size_t random_below(size_t limit) { return (size_t)(rt_random(&g_state) % limit); }

// Sizes of a phase: mostly small, sometimes anything; now and then a phase of large ones.
static size_t random_size(unsigned phase) {
  const unsigned spread = (phase % 4U) == 3U ? 14U : 6U;
  const size_t most = (size_t)16U << random_below(spread + 1U);
  return 1U + random_below(most);
}

static unsigned order_for(size_t size) {
  unsigned order = 0;
  while (((size_t)16U << order) < size) {
    ++order;
  }
  return order;
}

// How many units a block has: a power of two, or as many cells as it needs of the level below its order's.
static size_t units_for(const struct coffer_rt* heap, size_t size, unsigned order) {
  if (!heap->sums || order == 0U) {
    return (size_t)1 << order;
  }
  const unsigned cell = (order - 1U) / RT_RADIX_LOG2 * RT_RADIX_LOG2;
  return (((((size - 1U) / 16U) >> cell) + 1U)) << cell;
}

static void step_alloc(struct coffer_rt* heap, unsigned phase) {
  const size_t size = random_size(phase);
  const unsigned order = order_for(size);
  const bool is_tree = heap->policy == NULL;
  size_t unit = is_tree ? model_alloc(order) : NONE;
  unsigned char* block = coffer_rt_alloc(heap, size);
  if (!is_tree) {
    CHECK((block != NULL) == model_has(order));
    if (block != NULL) {
      unit = (size_t)(block - heap->base) / 16U;
      CHECK(unit % ((size_t)1 << order) == 0U);
      model_take(unit, order);
    }
  }
  if (unit == NONE) {
    CHECK(block == NULL);
  } else {
    CHECK(block == heap->base + (unit * 16U));
    const size_t units = units_for(heap, size, order);
    CHECK(coffer_rt_usable_size(heap, block) == units * 16U);
    model_free_all(unit + units, ((size_t)1 << order) - units);
    g_units[unit] = (uint16_t)units;
    g_live[g_live_count] = (uint32_t)unit;
    ++g_live_count;
  }
}

static void step_free(struct coffer_rt* heap) {
  const size_t i = random_below(g_live_count);
  const size_t unit = g_live[i];
  CHECK(coffer_rt_free(heap, heap->base + (unit * 16U)) == COFFER_RT_OK);
  model_free_all(unit, g_units[unit]);
  g_units[unit] = 0;
  --g_live_count;
  g_live[i] = g_live[g_live_count];
}

// An address that begins no live block changes nothing and is told.
static void step_wrong(struct coffer_rt* heap) {
#ifdef COFFER_RT_UNCHECKED
  if (heap->policy != NULL) {
    return;
  }
#endif
  const size_t unit = random_below(UNITS);
  if (g_units[unit] == 0U) {
    const enum coffer_rt_error error = coffer_rt_free(heap, heap->base + (unit * 16U));
    CHECK(error == COFFER_RT_DOUBLE || error == COFFER_RT_BAD);
  }
  CHECK(coffer_rt_free(heap, heap->base + (unit * 16U) + 1U + random_below(15)) == COFFER_RT_BAD);
}

static void run(struct coffer_rt* heap, uint64_t operations) {
  for (uint64_t i = 0; i < operations; ++i) {
    const unsigned phase = (unsigned)(i / 5000U);
    const size_t weight = (phase % 3U) == 0U ? 60U : 45U;
    const size_t dice = random_below(100);
    if (dice < weight && g_live_count < MAX_LIVE) {
      step_alloc(heap, phase);
    } else if (dice < 98U && g_live_count > 0U) {
      step_free(heap);
    } else {
      step_wrong(heap);
    }
    if (i % 65536U == 0U) {
      CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
    }
  }
  while (g_live_count > 0U) {
    step_free(heap);
  }
  CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
  CHECK(coffer_rt_largest_free(heap) == UNITS * 16U);
}

int main(int argc, char** argv) {
  static unsigned char region[(UNITS * 16U) + 65536U] __attribute__((aligned(64)));
  const uint64_t operations = argc > 1 ? rt_parse(argv[1]) : 200000U;
  const uint64_t seed = argc > 2 ? rt_parse(argv[2]) : 20031977U;
  g_free[ORDERS - 1U][0] = 1;
  for (unsigned i = 0; i < 4U; ++i) {
    const struct coffer_rt_options options = {.policy = i < 2U ? COFFER_RT_TREE : COFFER_RT_LISTS,
                                              .sums = (int)(i % 2U)};
    g_state = seed;
    struct coffer_rt* heap = coffer_rt_init(region, sizeof(region), &options);
    CHECK(heap != NULL && heap->bytes > UNITS * 16U);
    // Exactly UNITS units, as the model has them.
    heap->bytes = UNITS * 16U;
    if (heap->policy == NULL) {
      coffer_rt_tree_init(heap, heap->u.tree.level[0].first - 1);
    } else {
      heap->policy->init(heap);
      heap->lists_bytes = heap->bytes;
      heap->lists_limit = heap->sums ? 16U : heap->u.nodes.limit;
    }
    run(heap, operations);
  }
  rt_put_number(operations);
  rt_put(" operations with seed ");
  rt_put_number(seed);
  rt_put(": every address as Knuth's buddy system with sorted lists has it; with lists, every refusal\n");
  return 0;
}
