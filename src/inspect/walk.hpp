// SPDX-License-Identifier: MIT
// Walks over everything that Coffer holds: for statistics and for coffer_check.
#pragma once

#include "arena/each.hpp"
#include "exchange/record.hpp"

namespace coffer {

struct Figures;
struct Statistics;
struct HeapStatistics;

// What a span is to those who look from outside; of owned ones, what its heap makes of it.
enum class SpanLife : u8 { free, hot, floating, reusable, claimed, shared, listed, returning, mixed };
SpanLife life_of(const Span* span, const Heap* owner);

// Free blocks of the span as far as the caller may know: exact for shared spans and the caller's own, without the
// owner's heap list for others.
u32 known_free_blocks(const Span* span);

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
