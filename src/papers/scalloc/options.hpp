// SPDX-License-Identifier: MIT
// SCALLOC_CONF: what of scalloc can be chosen at run time. The defaults are the paper's (sections 3.2, 3.3 and 7).
#pragma once

#include "config/units.hpp"

namespace coffer::config {

inline constexpr char kVariable[] = "SCALLOC_CONF";
inline constexpr bool kProgramString = false;

// TLAB: one LAB a thread. CLAB: one a core, shared by threads of equal number modulo the cores (section 3.4).
enum class LabPolicy : u8 { thread, core };
// When an empty span goes to the span pool: at the free that empties it, or in the next slow allocation of its LAB and
// class (section 7.7.3's ablation).
enum class ReclaimPolicy : u8 { free, allocation };

// clang-format off
#define COFFER_OWN_OPTIONS(SIZE, UNSIGNED, CHOICE, BOOLEAN, TEXT)                                                     \
  SIZE(arena, 32 * kTiB, 16 * kMiB, 32 * kTiB, "address space; halved until the kernel grants it")                    \
  SIZE(virtual_span, 2 * kMiB, 2 * kMiB, 128 * kMiB, "bytes of a virtual span; rounded up to a power of two")         \
  SIZE(madvise_threshold, 32 * kKiB, 4 * kKiB, 2 * kMiB, "empty spans above this give their pages back")              \
  UNSIGNED(reusability, 80, 0, 100, "percent: a span with a larger part free is used again")                          \
  UNSIGNED(stacks, 0, 0, 256, "stacks a real-span size in the span pool; 0: one a core")                              \
  UNSIGNED(labs, 65536, 0, 1048576, "LABs at most; threads beyond share one")                                         \
  CHOICE(lab, LabPolicy, LabPolicy::thread, "thread|core", "whose a LAB is: TLAB or CLAB")                            \
  CHOICE(reclaim, ReclaimPolicy, ReclaimPolicy::free, "free|allocation", "who returns an empty span to the pool")     \
  BOOLEAN(madvise, true, "give pages of empty spans back")                                                            \
  BOOLEAN(huge, false, "huge pages for the whole arena, which undoes virtual spans")                                  \
  BOOLEAN(reuse, true, "spans are used again before they are empty")                                                  \
  BOOLEAN(protect, true, "memory of a virtual span beyond its real span faults when touched")                         \
  BOOLEAN(account, false, "keep the span-internal fragmentation at each call; slow")
// clang-format on

}  // namespace coffer::config
