// SPDX-License-Identifier: MIT
// operator new where the allocator has nothing: the new-handler loop and std::bad_alloc, without depending on a C++
// runtime. Here an alignment of 0 means what every block has.
#pragma once

#include <new>

#include "base/base.hpp"

namespace coffer::api {

// A block, after as many calls of the new-handler as it takes. Throws std::bad_alloc or what the handler throws.
// `alignment`: 0 or a power of two.
COFFER_NOINLINE void* new_slow(usize size, usize alignment);

// The same; nullptr where that would throw.
COFFER_NOINLINE void* new_slow_nothrow(usize size, usize alignment) noexcept;

// The forms with an alignment. C++ leaves undefined what one that is no power of two does, 0 among them. Here it fails
// as a block that cannot be had, but without the handler, which could not help: libstdc++'s rule.
COFFER_NOINLINE void* new_aligned(usize size, std::align_val_t alignment);
COFFER_NOINLINE void* new_aligned_nothrow(usize size, std::align_val_t alignment) noexcept;

// What `operator new(size)` or `operator new(size, alignment)` of the program's own gives; nullptr if it throws.
COFFER_NOINLINE void* replaced_new_nothrow(usize size) noexcept;
COFFER_NOINLINE void* replaced_new_nothrow(usize size, std::align_val_t alignment) noexcept;
// The same of `operator new[]`.
COFFER_NOINLINE void* replaced_array_new_nothrow(usize size) noexcept;
COFFER_NOINLINE void* replaced_array_new_nothrow(usize size, std::align_val_t alignment) noexcept;

}  // namespace coffer::api
