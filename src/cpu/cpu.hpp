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

inline constexpr usize kCacheLine = 64;

}  // namespace coffer
