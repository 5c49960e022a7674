// SPDX-License-Identifier: MIT
// Sizes as the tables of options write them.
#pragma once

#include "base/base.hpp"

namespace coffer::config {

inline constexpr u64 kKiB = u64{1} << 10;
inline constexpr u64 kMiB = u64{1} << 20;
inline constexpr u64 kGiB = u64{1} << 30;
inline constexpr u64 kTiB = u64{1} << 40;

}  // namespace coffer::config
