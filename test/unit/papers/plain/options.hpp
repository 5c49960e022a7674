// SPDX-License-Identifier: MIT
// PLAIN_CONF: see plain.hpp.
#pragma once

#include "config/units.hpp"

namespace coffer::config {

inline constexpr char kVariable[] = "PLAIN_CONF";
inline constexpr bool kProgramString = false;

#define COFFER_OWN_OPTIONS(SIZE, UNSIGNED, CHOICE, BOOLEAN, TEXT) \
  SIZE(piece, 64 * kKiB, 4 * kKiB, 1 * kMiB, "bytes of a piece")

}  // namespace coffer::config
