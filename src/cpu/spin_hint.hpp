// SPDX-License-Identifier: MIT
// A file of its own, so that another build can put a recorder in its place, as for base/atomic.hpp.
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

}  // namespace coffer
