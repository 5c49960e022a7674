// SPDX-License-Identifier: MIT
// Where memory lies that is the same in each run: what Coffer reserves, and the programs' tables.
#pragma once

#include "costs.hpp"

namespace simulation {

inline constexpr uptr kGroundFrom = uptr{1} << 45, kGroundTo = uptr{3} << 45;
void* take_ground(u64 bytes, u64 alignment);
bool is_ground(uptr address);

}  // namespace simulation
