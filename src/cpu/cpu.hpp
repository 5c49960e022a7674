// What the processor offers beside arithmetic.
#pragma once

#include "base/base.hpp"

namespace coffer {

// Tells the processor that this is a spin loop.
COFFER_INLINE void spin_hint() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// The first-level data cache that blocks are placed for: an address's index there is its line number modulo the sets.
// Where a machine has more sets, its indices fold onto these, and blocks spread over them a little less evenly.
inline constexpr usize kCacheLine = 64;
inline constexpr u32 kCacheSets = 64;
inline constexpr usize kCachePage = kCacheLine * kCacheSets;  // bytes after which indices repeat

}  // namespace coffer
