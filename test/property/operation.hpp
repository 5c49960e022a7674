// SPDX-License-Identifier: MIT
// One call of the allocator, as data: sequences of them are made, run, cut down and printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace coffer::test {

enum class Kind : std::uint8_t {
  // For an empty slot: a block is put there.
  malloc,
  calloc,
  aligned_alloc,
  posix_memalign,
  memalign,
  valloc,
  pvalloc,
  realloc_null,  // realloc(NULL, size)
  // For a slot that holds a block.
  free,
  free_sized,
  free_aligned_sized,
  realloc,
  use_all,  // from now on the program uses malloc_usable_size(block) bytes
  verify,   // contents only
  // For no slot.
  free_null,
  refused,  // sizes and alignments that no allocator may accept
  trim,
  stats,
  check,
};

inline constexpr Kind kLastAllocating = Kind::realloc_null;
inline constexpr Kind kLastOfSlot = Kind::verify;

struct Operation {
  Kind kind;
  std::uint8_t alignment_log2;  // of the aligned kinds
  std::uint32_t slot;
  std::uint64_t size;  // calloc: the product
};

using Operations = std::vector<Operation>;

// As a line of C, with b[slot] for the block.
std::string to_text(const Operation& operation);

}  // namespace coffer::test
