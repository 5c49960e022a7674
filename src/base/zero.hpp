// SPDX-License-Identifier: MIT
// Zeros for small blocks: a handful of stores in place of a call of memset, which costs more than they do.
#pragma once

#include "base/base.hpp"

namespace coffer {

inline constexpr usize kMostZeroedInline = 256;

// Makes `bytes` zero, at most kMostZeroedInline, rounded up to a multiple of 16, at least 16. `memory` is aligned
// to 16. Stores from both ends overlap in the middle, so that three tests find enough of them for any size, without a
// loop.
COFFER_INLINE void zero_small(void* memory, usize bytes) {
  using Lane __attribute__((vector_size(16), may_alias)) = u64;
  constexpr Lane kZero = {};
  const auto store = [](Lane* at, int count) __attribute__((always_inline)) {
    for (int i = 0; i < count; ++i) at[i] = kZero;
  };
  const usize lanes = (bytes + 15) / 16;
  Lane* first = static_cast<Lane*>(memory);
  Lane* end = first + lanes;
  if (lanes > 8) {
    store(first, 8);
    store(end - 8, 8);
  } else if (lanes > 4) {
    store(first, 4);
    store(end - 4, 4);
  } else if (lanes > 2) {
    store(first, 2);
    store(end - 2, 2);
  } else {
    store(first, 1);
    if (lanes == 2) store(first + 1, 1);
  }
}

}  // namespace coffer
