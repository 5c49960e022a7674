// SPDX-License-Identifier: MIT
// How large a region never fails: docs/design/rt.md, "How large a heap must be". Computed in 64 bits everywhere.
#include "heap.h"

// Beyond this, sums below could overflow; no region is as large.
#define LIMIT ((uint64_t)1 << 56U)

// ceil(a / 2^log2)
static uint64_t shift_up(uint64_t a, unsigned log2) { return (a + (((uint64_t)1 << log2) - 1U)) >> log2; }

// floor(a * 2^log2 / c), by long division; a < LIMIT, the result saturates at LIMIT.
static uint64_t scale(uint64_t a, unsigned log2, uint64_t c) {
  uint64_t quotient = a / c;
  uint64_t rest = a % c;
  for (unsigned i = 0; i < log2; ++i) {
    quotient *= 2U;
    rest *= 2U;
    if (rest >= c) {
      rest -= c;
      ++quotient;
    }
    if (quotient > LIMIT) {
      quotient = LIMIT;
    }
  }
  return quotient;
}

// No region is this large.
#define MOST ((uint64_t)PTRDIFF_MAX / 2U < LIMIT ? (uint64_t)PTRDIFF_MAX / 2U : LIMIT)

static bool is_beyond(uint64_t value) { return value >= LIMIT; }

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

// The orders of the smallest and largest block, and what the smallest request is.
struct range {
  unsigned unit_log2;  // log2 of the smallest block's bytes
  unsigned orders;     // the largest block is 2^orders times as large
  uint64_t smallest;   // bytes
};

// The most units that blocks can take whose requests obey the load. A block of order k > 0 stands for a request of over
// half its size, so for at least unit * 2^(k-1) + 1 bytes; one of order 0 for at least `smallest` bytes.
static uint64_t live_units(const struct coffer_rt_load* load, const struct range* range) {
  const uint64_t live = load->live_bytes;
  uint64_t units = LIMIT;
  if (range->smallest > 0U) {
    // If all of it were in the order that wastes most: the smallest or the largest.
    units = scale(live, 0, range->smallest);
    if (range->orders > 0U) {
      const unsigned k = range->orders;
      const uint64_t request = ((uint64_t)1 << (range->unit_log2 + k - 1U)) + 1U;
      const uint64_t wasteful = scale(live, k, request);
      units = units > wasteful ? units : wasteful;
    }
  }
  if (load->live_blocks > 0U) {
    const uint64_t blocks = load->live_blocks;
    const uint64_t unit = (uint64_t)1 << range->unit_log2;
    units = smaller(units, scale(blocks, range->orders, 1));
    // Each block is less than twice its request, or one unit.
    const uint64_t excess = unit > 2U * range->smallest ? unit - (2U * range->smallest) : 0U;
    if (excess == 0U || blocks < (LIMIT - (2U * live)) / excess) {
      units = smaller(units, shift_up((2U * live) + (blocks * excess), range->unit_log2));
    }
  }
  const uint64_t one = (uint64_t)1 << range->orders;
  return units < one ? one : units;
}

// Where the last place ends at which a block of 2^order units can ever begin, at the lowest free address: below it
// stands something in each aligned run of its size, and all of it with the block itself is at most `live` units.
// ends[i] is the end of the memory that blocks of order i and below can be in, so what begins at or beyond ends[i-1] is
// of order i at least.
static uint64_t end_of(const uint64_t* ends, uint64_t live, unsigned order) {
  uint64_t budget = live - ((uint64_t)1 << order);  // what else may be live when one is asked for
  uint64_t passed = 0;                              // runs of 2^order units that can all be occupied
  for (unsigned i = 0; i < order; ++i) {
    const uint64_t runs = shift_up(ends[i], order);
    if (runs > passed) {
      const uint64_t affordable = budget >> i;
      if (affordable < runs - passed) {
        return (passed + affordable + 1U) << order;
      }
      budget -= (runs - passed) << i;
      passed = runs;
    }
  }
  return (passed + (budget >> order) + 1U) << order;
}

// Units that are enough for blocks of up to 2^orders units, `live` of them at a time; live >= 2^orders.
static uint64_t first_fit_units(uint64_t live, unsigned orders) {
  uint64_t ends[64];
  ends[0] = live;
  for (unsigned j = 1; j <= orders; ++j) {
    const uint64_t end = end_of(ends, live, j);
    ends[j] = end > ends[j - 1U] ? end : ends[j - 1U];
  }
  return ends[orders];
}

// As first_fit_units, with lists: docs/design/rt.md, section 3.1. Here the unit is the smallest block of the heap,
// since its levels count from there: `live` of them, in blocks of 2^least to 2^most.
static uint64_t lists_units(uint64_t live, unsigned least, unsigned most) {
  uint64_t needed = live;
  for (unsigned k = least + 1U; k <= most; ++k) {
    const unsigned run = k % RT_RADIX_LOG2;
    const uint64_t block = (uint64_t)1 << k;
    // What can be live besides one smallest block in each run of this order of those that `needed` counts.
    const uint64_t rest = live - (needed >> (k - least));
    uint64_t more = rest + block;
    if (run != 0U) {
      // A node of which one run of this order is live, and one smallest block in each other.
      const unsigned node_log2 = k - run + RT_RADIX_LOG2;
      const uint64_t others = ((uint64_t)1 << (RT_RADIX_LOG2 - run)) - 1U;
      more = scale(rest, node_log2, block + (others << least)) + 1U + ((uint64_t)1 << node_log2);
    }
    needed = smaller(needed + more, scale(live, k - least, 1));
  }
  return needed + ((uint64_t)1 << most);
}

static bool range_of(const struct coffer_rt_load* load, size_t min_block, struct range* range) {
  const unsigned min_log2 = rt_highest(min_block);
  const size_t smallest = load->smallest > 0U ? load->smallest : 1U;
  // What coffer_rt_init would refuse, no region is large enough for.
  if ((min_block & (min_block - 1U)) != 0U || min_block < 8U || min_block > 65536U ||
      (load->alignment & (load->alignment - 1U)) != 0U || load->largest < smallest ||
      load->live_bytes < load->smallest || is_beyond(load->largest) || is_beyond(load->live_bytes) ||
      is_beyond(load->live_blocks)) {
    return false;
  }
  const size_t low = (smallest - 1U) >> min_log2;
  const size_t high = (load->largest - 1U) >> min_log2;
  const unsigned low_order = low == 0U ? 0U : rt_highest(low) + 1U;
  const unsigned high_order = high == 0U ? 0U : rt_highest(high) + 1U;
  range->unit_log2 = min_log2 + low_order;
  range->orders = high_order - low_order;
  range->smallest = load->smallest;
  return true;
}

// What may be lost to the alignment of the first block. Where coffer_rt_init chooses the alignment, a larger region
// must not lose more than it has more: 1/64 of all, or one smallest block, is what it goes by.
static size_t gap_of(const struct coffer_rt_load* load, size_t min_block, size_t bytes) {
  size_t alignment = load->alignment;
  if (alignment == 0U) {
    alignment = bytes / 64U < RT_MAX_DEFAULT_ALIGNMENT ? bytes / 64U : RT_MAX_DEFAULT_ALIGNMENT;
  }
  return alignment > min_block ? alignment : min_block;
}

size_t coffer_rt_region_bytes(const struct coffer_rt_load* load) {
  const size_t min_block = load->min_block != 0U ? load->min_block : RT_DEFAULT_MIN_BLOCK;
  struct range range;
  const bool has_lists = load->policy == COFFER_RT_LISTS;
  if (!range_of(load, min_block, &range) || (load->smallest == 0U && load->live_blocks == 0U) ||
      (load->policy != COFFER_RT_TREE && !has_lists)) {
    return 0;
  }
  const uint64_t live = live_units(load, &range);
  uint64_t needed = MOST;
  if (live < (MOST >> range.unit_log2) / 64U) {  // so that no sum overflows: 64 times what is live is always enough
    const unsigned least = range.unit_log2 - rt_highest(min_block);
    uint64_t units = has_lists ? shift_up(lists_units(live << least, least, least + range.orders), least)
                               : first_fit_units(live, range.orders);
    if (load->live_blocks > 0U) {
      // With one run of the largest size for each block, one is free whenever a block may be added.
      units = smaller(units, scale(load->live_blocks, range.orders, 1));
    }
    units = smaller(units, LIMIT >> range.unit_log2);
    needed = (units << range.unit_log2) + sizeof(struct coffer_rt) + _Alignof(struct coffer_rt);
  }
  if (needed + load->alignment >= MOST) {
    return 0;
  }
  // The tree and the gap go by the whole region; they are a few per cent of it, so this settles.
  size_t bytes = 0;
  size_t next = (size_t)needed;
  while (next != bytes) {
    bytes = next;
    const size_t units = bytes / min_block;
    const size_t words = has_lists ? coffer_rt_lists_words(units) : coffer_rt_tree_words(units);
    next = (size_t)needed + gap_of(load, min_block, bytes) + (words * sizeof(rt_word));
  }
  return bytes;
}
