// SPDX-License-Identifier: MIT
// What the recorded cells (bench/simulation/recorded) report in a trial: every access, of an Atomic or an Owned, is a
// step of the world, before which another thread may run.
#pragma once

#include "trial/pulse.hpp"

#define COFFER_UNRECORDED COFFER_INLINE

namespace coffer::recorded {

COFFER_INLINE void access(const void*, usize, Kind kind, const Place& at) {
  trial::step(at.line, static_cast<u32>(kind));
}
COFFER_INLINE void failed(const void*, const Place&) {}
COFFER_INLINE void fence() {}
COFFER_INLINE void pause() {}

}  // namespace coffer::recorded
