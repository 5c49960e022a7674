// SPDX-License-Identifier: MIT
// What is looked at when no thread is in a call. No step of the world.
#pragma once

#include "base/base.hpp"

namespace coffer::trial {

// What a thread leaves behind is nobody's secret: its mail and chains are seen to.
void expect_nothing_left_behind(bool is_child);
// Bytes behind the large blocks that there are, up to the end of their last chunks: no other block gets them.
usize large_tails();
usize live_now();  // as coffer_stats says

}  // namespace coffer::trial
