// SPDX-License-Identifier: MIT
// Coffer as the API shim sees it in the default build.
#pragma once

#include "heap/plain_allocator.hpp"

namespace coffer {

using Allocator = PlainAllocator;

}  // namespace coffer
