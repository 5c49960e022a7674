// SPDX-License-Identifier: MIT
// cpu/spin_hint.hpp for Relacy: others run.
#pragma once

#include "base/base.hpp"
#include "orders.hpp"

namespace coffer {

inline void spin_hint() { rl::yield(1, RL_INFO); }

}  // namespace coffer
