/* SPDX-License-Identifier: MIT */
// What a request of so many units gets, in nodes of RT_RADIX cells: the same under the tree and under lists.
#ifndef COFFER_RT_TEST_UNITS_H
#define COFFER_RT_TEST_UNITS_H

#include <stdbool.h>

static unsigned order_for(unsigned units) {
  unsigned order = 0;
  while ((1U << order) < units) {
    ++order;
  }
  return order;
}

// The level of whose cells a block of so many units is.
static unsigned level_of(unsigned units) {
  const unsigned order = order_for(units);
  return units == 1U << order ? order / RT_RADIX_LOG2 : (order - 1U) / RT_RADIX_LOG2;
}

// How many units it gets: with sums, as many cells of the level below its order's as it needs.
static unsigned units_for(unsigned units, bool sums) {
  const unsigned order = order_for(units);
  unsigned result = 1U << order;
  if (sums && order > 0U) {
    const unsigned cell = 1U << ((order - 1U) / RT_RADIX_LOG2 * RT_RADIX_LOG2);
    result = (units + cell - 1U) / cell * cell;
  }
  return result;
}

#endif
