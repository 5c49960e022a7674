// SPDX-License-Identifier: MIT
// What is free can be had, and no more than a limit allows: asked when everything rests and the kernel gives nothing.
#pragma once

#include "base/base.hpp"

namespace coffer::trial {

// Three quarters of what is free, by small blocks of one of a few sizes (`kind` says which), and then `largest` again,
// the largest block that the program had (0: there was none). Blocks that are lost in a child keep their spans; there
// the largest one is not asked for.
void expect_room(u64 kind, usize largest, bool is_child);

// Under a limit of half of what is free: about as much can be had, and what is charged stays below it.
void expect_limit_holds();

}  // namespace coffer::trial
