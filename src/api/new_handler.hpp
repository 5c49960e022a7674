// operator new where the allocator has nothing: the new-handler loop and std::bad_alloc, without depending on a C++
// runtime. For both, `alignment` is a power of two or 0, which means what every block has.
#pragma once

#include "base/base.hpp"

namespace coffer::api {

// A block, after as many calls of the new-handler as it takes. Throws std::bad_alloc or what the handler throws.
COFFER_NOINLINE void* new_slow(usize size, usize alignment);

// The same; nullptr where that would throw.
COFFER_NOINLINE void* new_slow_nothrow(usize size, usize alignment) noexcept;

// What `operator new(size)` or `operator new(size, alignment)` of the program's own gives; nullptr if it throws.
COFFER_NOINLINE void* replaced_new_nothrow(usize size, usize alignment) noexcept;

}  // namespace coffer::api
