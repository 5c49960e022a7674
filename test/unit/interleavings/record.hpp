// SPDX-License-Identifier: MIT
// What the recorded cells (bench/simulation/recorded) report here: every operation on an Atomic is a step, before which
// another thread may run. Only its owner writes an Owned, and what others read of it is a hint or carried by a step of
// an Atomic: those are steps only where a scenario is about who the owner is (watch_owned).
#pragma once

#include "interleavings/scheduler.hpp"

#define COFFER_UNRECORDED COFFER_INLINE

namespace coffer::recorded {

COFFER_INLINE void access(const void* cell, usize, Kind kind, const Place&) {
  schedule::count();
  if (kind == Kind::load || kind == Kind::store || kind == Kind::change) {
    schedule::step(cell);
  } else {
    schedule::owned_step(cell);
  }
}
COFFER_INLINE void failed(const void*, const Place&) {}
COFFER_INLINE void fence() {}
COFFER_INLINE void pause() {}

}  // namespace coffer::recorded

#include "at_once.hpp"
