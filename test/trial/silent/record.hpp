// SPDX-License-Identifier: MIT
// For os/linux and os/fake in a trial: what the kernel's side does to cells of its own is no step.
#pragma once

#define COFFER_UNRECORDED COFFER_INLINE

namespace coffer::recorded {

COFFER_INLINE void access(const void*, usize, Kind, const Place&) {}
COFFER_INLINE void failed(const void*, const Place&) {}
COFFER_INLINE void fence() {}
COFFER_INLINE void pause() {}

}  // namespace coffer::recorded

#include "at_once.hpp"
