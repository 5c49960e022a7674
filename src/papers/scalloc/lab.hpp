// SPDX-License-Identifier: MIT
// A LAB, local-allocation buffer (section 3.4): for each class a hot span and a set of reusable ones. Elsewhere in this
// project it would be called a heap.
#pragma once

#include <utility>

#include "papers/scalloc/reusable_set.hpp"

namespace coffer::scalloc {

struct alignas(64) Lab {
  constexpr Lab() = default;
  template <usize... kIndex>
  constexpr Lab(Span* span, std::index_sequence<kIndex...>) : hot{Owned<Span*>((void(kIndex), span))...} {}

  // One a class. The hot span, or no_span(): a span without blocks, which spares the fast path a test.
  Owned<Span*> hot[kClasses];
  // What the LAB writes into the spans it has: identity and address. kTerminated: it has no thread.
  Atomic<Owner> owner;
  ReusableSet reusable[kClasses];

  Owned<u32> thread;    // its number, for the stacks of the span pool
  Owned<u32> identity;  // of its present life; the next life has the next one
  Owned<u32> threads;   // that use it, under the registry's lock; more than one for a CLAB or the common LAB
  Owned<u32> shared;    // 1: several threads use it, under `lock`
  Owned<Lab*> next_unused;
  SpinLock lock;
};

inline constexpr u32 kLastIdentity = 0xffff;

inline Lab* lab_of(Owner owner) { return reinterpret_cast<Lab*>(owner & low_mask(kIdentityShift)); }

// A span without blocks, and the LAB on the fast path of threads that have none of their own. Never written to.
extern Span g_no_span __attribute__((visibility("hidden")));
inline Span* no_span() { return &g_no_span; }
extern Lab g_no_lab __attribute__((visibility("hidden")));

}  // namespace coffer::scalloc
