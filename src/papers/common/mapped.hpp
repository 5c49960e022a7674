// SPDX-License-Identifier: MIT
// Blocks with a mapping of their own: what the papers do with requests that are too large for a superblock or span
// (paper 1 section 3, paper 2 section 3.2, paper 3 section 4). A header lies before the block; its last word is the one
// that word.hpp describes.
#pragma once

#include "base/base.hpp"

namespace coffer::papers {

// A block of `size` bytes, zero, aligned to `alignment` (a power of two, at least 16). nullptr: no memory.
void* map_block(usize size, usize alignment);
void unmap_block(void* block);
// Bytes that may be used, up to the end of the last page.
usize mapped_size(const void* block);
// Makes the block `size` bytes long: in its place where it shrinks, its pages suffice or the address space behind it is
// free, else in a new place, by moving its pages. nullptr: that cannot be done; the block is then as it was.
void* resize_mapped(void* block, usize size);

}  // namespace coffer::papers
