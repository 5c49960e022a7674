// SPDX-License-Identifier: MIT
// What the recorded cells (bench/simulation/recorded) report in a trial: every access, of an Atomic or an Owned, is a
// step of the world, before which another thread may run; and its stores may be seen later by others (stores.hpp).
#pragma once

#include "trial/pulse.hpp"
#include "trial/stores.hpp"

#define COFFER_UNRECORDED COFFER_INLINE

namespace coffer::recorded {

COFFER_INLINE void access(const void*, usize, Kind kind, const Place& at) {
  trial::step(at.line, static_cast<u32>(kind));
}
COFFER_INLINE void failed(const void*, const Place&) {}
COFFER_INLINE void fence() { trial::send_own_stores(); }
COFFER_INLINE void pause() {}

template <class T>
COFFER_INLINE T seen(const T& cell, std::memory_order order) {
  return trial::seen_value(cell, order);
}
template <class T>
COFFER_INLINE void write(T& cell, T value, std::memory_order order) {
  trial::write_value(cell, value, order);
}
template <class T>
COFFER_INLINE void settle(const T& cell, std::memory_order order) {
  trial::settle_stores(&cell, order);
}

}  // namespace coffer::recorded
