// SPDX-License-Identifier: MIT
// What is looked at when no thread is in a call. No step of the world.
#pragma once

#include "base/base.hpp"

namespace coffer::trial {

// Heaps without a thread have no mail and no chains, and each waits for one thread only.
void expect_nothing_left_behind(bool is_child);
// After some seconds without a call, where the kernel refused nothing and the reclaimer can be had.
void expect_little_resident();
// After a trim that the kernel did not refuse.
void expect_nothing_resident();
// Bytes behind the large blocks that there are, up to the end of their last chunks: no other block gets them.
usize large_tails();

}  // namespace coffer::trial
