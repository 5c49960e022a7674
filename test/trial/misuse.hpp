// SPDX-License-Identifier: MIT
// What wrong programs do, each in a process of its own that goes on from here and must end with a report.
#pragma once

#include "trial/blocks.hpp"

namespace coffer::trial {

// The block is freed twice, after `between` others of the program's were freed in between; or a pointer into it is
// freed. An error of Coffer's to report neither, or to hand a block out that is live.
enum class Wrong : u8 { freed_twice, freed_inside };
void commit_misuse(const Held& held, Wrong wrong, u32 between, const std::vector<Held>& others);

}  // namespace coffer::trial
