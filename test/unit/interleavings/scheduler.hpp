// SPDX-License-Identifier: MIT
// What the cells and locks of this build call. The scheduler behind it: explorer.hpp.
#pragma once

namespace coffer::schedule {

// The calling thread is about to look at or change a cell: another one may run first.
void step(const void* cell);
// Waits until *held is false, and sets it.
void lock(bool* held);

}  // namespace coffer::schedule
