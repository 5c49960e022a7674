// SPDX-License-Identifier: MIT
// The C library's malloc, which serves where Coffer does not start (os::support). Asked where an allocation failed, so
// that it costs nothing else.
#pragma once

#include "base/base.hpp"

namespace coffer::api {

// nullptr: Coffer serves, or there is no other malloc (a fully static program), or no memory. `alignment` is 0 or a
// power of two.
COFFER_COLD void* allocate_from_system(usize size, usize alignment);
COFFER_COLD void* allocate_zeroed_from_system(usize size);

}  // namespace coffer::api
