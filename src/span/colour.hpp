// SPDX-License-Identifier: MIT
// Colours: where in a span its blocks begin, and which of them goes out first. Spans of one class, of one process or of
// several, would else begin at the same cache index, and so would what threads allocate first.
//
//   line    the first block starts so many lines in: the colour that the fewest spans of the class have (paper 3,
//           section 8.2). Only where the layout has room for it.
//   page    spans of blocks over a slot begin some pages in, by their place: their few blocks would else lie on few
//   sets
//           of the TLB. Nobody touches what lies before.
//   start   the block that is cut first. The others follow it in address order, and then those before it; so this costs
//           no memory. Its index and its page are the place's: neighbours have different ones, all of them, from one
//           that depends on the kernel's random numbers, and spans that come to a place one after the other, of
//           whatever class, begin on a page that is resident already, and not ever another one. Only the first spans
//           of a heap begin so (heap/refill.cpp): many blocks of a size reach all indices anyhow, and who reads them in
//           the order in which they were allocated would jump back twice a span.
//
// Large blocks have a colour by their place (large/colour.hpp). Option `colour` switches all off.
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

// The block that a new span is cut from first, by its start_index: the cache index of its place, or none, which is
// block 0.
inline constexpr u32 kNoStartIndex = 255;
static_assert(kCacheSets <= kNoStartIndex);
u32 start_block(const Span* span);

}  // namespace coffer
