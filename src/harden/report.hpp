// SPDX-License-Identifier: MIT
// Reports of misuse: one line on stderr, then abort. Nothing here allocates, locks, or returns.
#pragma once

#include "base/base.hpp"

namespace coffer::harden {

// What is wrong with a pointer.
enum class BadPointer : u8 {
  foreign,       // not in memory that Coffer hands out
  not_a_start,   // inside a block, or between blocks
  already_free,  // freed twice
  free_span,     // in memory that holds no block now
  overrun,       // what stands behind the block is not what was put there (hardened build)
};

// "coffer: free of 0x...: WHAT (size class N)"; `call` is the function that was given the pointer; block_bytes 0: no
// class is known.
[[noreturn]] COFFER_COLD void bad_pointer(const char* call, const void* address, BadPointer what, usize block_bytes);

// A free block whose link, or the link's signature, is not what free wrote there. block_bytes as above.
[[noreturn]] COFFER_COLD void broken_link(const void* block, usize block_bytes);

// free_sized, free_aligned_sized and sized delete with a size that the block cannot have been asked for with.
[[noreturn]] COFFER_COLD void bad_size(const void* block, usize given, usize usable);

}  // namespace coffer::harden
