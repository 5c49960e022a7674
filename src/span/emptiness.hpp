// SPDX-License-Identifier: MIT
// When a span counts as usable again, and how much a heap may keep: Hoard's f and K (paper 1, section 3.2). The
// formulas are in policy/listed.hpp and policy/kept.hpp; here they get the current state of the process.
//
//   f      empty fraction (option): 1/4. A span is f-empty when at least a quarter of its blocks are free.
//   slack  free bytes in reusable spans that a heap may keep. It is Hoard's K * S, which bounds a - u, as one budget
//          of bytes for all classes. It does not count bytes of spans: a heap that works with thirty classes has a
//          reusable span in each, an eighth of it free.
//
// The owner counts local frees, and the remote word counts remote frees. Each count can stay just below its threshold.
// Therefore the threshold of each side is f / 2.
#pragma once

#include "policy/kept.hpp"
#include "policy/listed.hpp"
#include "span/choices.hpp"
#include "span/shortage.hpp"

namespace coffer {

// How many heaps share what may be kept, as a power of two, rounded up: 1, 2, 4 or more. Written by the registry
// (exchange/registry.cpp), read as a hint wherever a threshold is computed.
inline constinit Owned<u8> g_sharing_log2;

// While memory is exhausted: one.
inline u32 reuse_threshold(u32 capacity) {
  if (COFFER_UNLIKELY(is_short())) return 1;
  return reuse_threshold_at(g_span_choices.reuse_shift.get(), capacity, g_sharing_log2.get());
}
inline usize bound_of_class(usize high) { return bound_of_class_at(g_span_choices.reuse_shift.get(), high); }

}  // namespace coffer
