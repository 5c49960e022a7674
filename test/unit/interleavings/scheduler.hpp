// SPDX-License-Identifier: MIT
// What the cells and locks of this build call. The scheduler behind it: explorer.hpp.
#pragma once

#include "base/base.hpp"

namespace coffer::schedule {

// The calling thread is about to look at or change a cell: another one may run first.
void step(const void* cell);
// The same for an Owned.
void owned_step(const void* cell);
// Cells that were looked at or changed since the start, Owned ones too: what a call costs, where a clock would not do.
void count();
u64 counted();
// Waits until *held is false, and sets it.
void lock(bool* held);

}  // namespace coffer::schedule
