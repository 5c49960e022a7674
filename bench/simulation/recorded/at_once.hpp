// SPDX-License-Identifier: MIT
// For a listener's record.hpp: every store is seen by all threads at once.
#pragma once

namespace coffer::recorded {

template <class T>
COFFER_UNRECORDED T seen(const T& cell, std::memory_order) {
  return cell;
}
template <class T>
COFFER_UNRECORDED void write(T& cell, T value, std::memory_order) {
  cell = value;
}
template <class T>
COFFER_UNRECORDED void settle(const T&, std::memory_order) {}

}  // namespace coffer::recorded
