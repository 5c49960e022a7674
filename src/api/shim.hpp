// SPDX-License-Identifier: MIT
// What the files of this folder share: the allocator they stand on, the macros for visible names, and the argument
// checks that more than one of them needs.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/allocator.hpp"
#include "api/system_malloc.hpp"
#include "base/base.hpp"
#include "base/bits.hpp"
#include COFFER_ALLOCATOR_HEADER

// Everything is hidden but what carries this.
#define COFFER_VISIBLE __attribute__((visibility("default")))
// A second name for a function of the same file: the same instructions, not a jump to them.
#define COFFER_ALIAS(target) COFFER_VISIBLE __attribute__((alias(#target)))

namespace coffer::api {

static_assert(AllocatorConcept<Allocator>);

// No object may be larger (pointer differences would overflow), so no request may be.
inline constexpr usize kMaxSize = PTRDIFF_MAX;

// What every block is aligned to.
inline constexpr usize kBlockAlignment = 16;

// A block aligned to `alignment`, a power of two or 0 (as every block is); nullptr when there is none to be had. Leaves
// errno alone.
COFFER_INLINE void* allocate_aligned(usize alignment, usize size) {
  if (alignment > kMaxSize || size > kMaxSize - alignment) return nullptr;
  void* block = nullptr;
  if (alignment > kBlockAlignment) {
    block = Allocator::allocate_aligned(size, alignment);
  } else if ((block = Allocator::allocate_fast(size)) == nullptr) {
    block = Allocator::allocate(size);
  }
  return COFFER_LIKELY(block != nullptr) ? block : allocate_from_system(size, alignment);
}

}  // namespace coffer::api
