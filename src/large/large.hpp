// SPDX-License-Identifier: MIT
// Blocks over 64 KiB: runs of slices inside one chunk up to 1 MiB, whole chunks of address space above. Only the pages
// that the program touches cost memory. A large block is known by the record of its first slice.
#pragma once

#include "pool/slice_pool.hpp"
#include "span/span.hpp"

namespace coffer {

// A large block starts at an offset in its first slice, its colour (large/colour.hpp), which stays what it is until the
// block is freed.
inline constexpr usize kLargestSliceRun = 1024 * 1024;  // with the offset

// A block of at least `size` bytes whose address is a multiple of `alignment` (a power of two of any size).
// nullptr: no memory. *zero: all of it is zero.
void* allocate_large(usize size, usize alignment, bool* zero);
// false: `block` is not the start of the live large block that `span` describes; nothing was done.
bool free_large(void* block, Span* span);
// The same in two steps. After the first, what the block was made of is the caller's: the record's `slices` from its
// own on, all of which may be resident, or chunks, where `large_chunks` is not 0. The second gives it back.
bool end_large(void* block, Span* span);
void return_large(Span* span);
// The run of slices that a block needs, its first a multiple of `alignment` slices; count 0: it needs whole chunks.
struct RunShape {
  u32 count, alignment;
};
RunShape run_shape(usize size, usize alignment);
// A block in a run of this shape that the caller has.
void* begin_large(const SliceRun& run, usize size, usize alignment);
// Grows or shrinks in place, or moves the pages; the block's new address, or nullptr: neither can be done (the block is
// as it was; copying may still work). `size` is over 64 KiB.
void* resize_large(void* block, Span* span, usize size);
// Whether a request for more that failed could be served from what others hold now. false: asking again is no use.
bool may_fit_later(usize size);
// Zeroes what of a large block just allocated may hold old data.
void zero_large(void* block, usize size);

}  // namespace coffer
