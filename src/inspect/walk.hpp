// SPDX-License-Identifier: MIT
// Walks over everything that Coffer holds: for statistics and for coffer_check.
#pragma once

#include "arena/each.hpp"
#include "exchange/record.hpp"

namespace coffer {

struct Figures;
struct Statistics;
struct HeapStatistics;

// What a span is to those who look from outside: its state, and of owned ones what its heap makes of it. The numbers
// stand in shared pages (docs/reference/shared-page.md), so they stay; 7 was a state of earlier versions.
enum class SpanLife : u8 {
  free = 0,
  hot = 1,
  floating = 2,
  reusable = 3,
  claimed = 4,
  shared = 5,
  listed = 6,
  mixed = 8,
};
SpanLife life_of(const Span* span, const Heap* owner);

void collect_statistics(Statistics& statistics);
// The same without classes.
void collect_figures(Figures& figures);
// The same without what takes a file or a wait, so that it may be called anywhere, also from a signal handler; false:
// not just now.
bool try_statistics(Statistics& statistics);
// false: there is no heap of that index.
bool collect_heap(u32 index, HeapStatistics& statistics);

// Verifies the invariants; returns the number of violations, each one line on stderr.
usize check_everything();

}  // namespace coffer
