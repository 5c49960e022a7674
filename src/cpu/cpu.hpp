// SPDX-License-Identifier: MIT
// What the processor offers beside arithmetic.
#pragma once

#include "base/base.hpp"

namespace coffer {

// The first-level data cache that blocks are placed for: an address's index there is its line number modulo the sets.
// Where a machine has more sets, its indices fold onto these, and blocks spread over them a little less evenly.
inline constexpr usize kCacheLine = 64;
inline constexpr u32 kCacheSets = 64;
inline constexpr usize kCachePage = kCacheLine * kCacheSets;  // bytes after which indices repeat

}  // namespace coffer
