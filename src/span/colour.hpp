// SPDX-License-Identifier: MIT
// Colours: where the blocks of a span begin, and which block is carved first. Without colours, spans of one class would
// begin at the same cache index, in one process and in several, and so would the first blocks of each thread.
//
//   line    the number of lines before the first block: the colour that the fewest spans of the class have (paper 3,
//           section 8.2). Only where the layout has room for it.
//   page    the number of pages before the first block, for spans of blocks over a slice. It follows from the place of
//           the span. Without it the few blocks of such a span would lie on few sets of the TLB. Pages before the
//           first block are never touched.
//   start   the block that is carved first. The others follow in address order, and then those before it, so this costs
//           no memory. Its index and its page follow from the place. Neighbours have different ones, and the first
//           place has one that depends on the kernel's random numbers. Spans that come to a place one after the other,
//           of whatever class, begin on the same page, which is resident already.
//
// Only the first spans of a heap have a start colour (heap/refill.cpp). Many blocks of one size reach all indices
// anyway, and a thread that reads its blocks in the order of allocation would jump back twice in each span.
//
// Large blocks have a colour by their place (large/colour.hpp). The option `colour` turns all of this off.
#pragma once

#include "span/span.hpp"

namespace coffer {

// Once at the start: asks the kernel for its random numbers.
void colours_start();
// In the child of a fork: it goes on otherwise than its parent and its siblings. Makes no system call.
void colours_after_fork();

// The line for a new span of the class; it counts from now on.
u32 take_colour_line(ClassIndex size_class, const ClassLayout& layout);
void give_colour_line(const Span* span);
// The pages for a span of the class at a place, by the place's number.
u32 page_colour(const ClassLayout& layout, u32 place);
// Spans of a class that have a colour now.
u32 colour_population(ClassIndex size_class, u32 line);

// A cache index for what lies at a place, by the place's number: neighbours are far apart, and kCacheSets of them, one
// after the other, have all indices. The process's for as long as it does not fork.
u32 index_of_place(u32 place);

// The same where there are other than kCacheSets colours: a fraction of 2^32, far from those of neighbours.
u32 fraction_of_place(u32 place);

// The block that a new span is carved from first, by its start_index: the cache index of its place, or none, which is
// block 0.
inline constexpr u32 kNoStartIndex = 255;
static_assert(kCacheSets <= kNoStartIndex);
u32 start_block(const Span* span);

}  // namespace coffer
