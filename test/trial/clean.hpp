// SPDX-License-Identifier: MIT
// What the allocator takes for clean is zero: free slots that are not dirty, pages of spans that no block touched, and
// pages of mixed spans that are absent. calloc clears none of these; one that is not zero may wait long for a calloc.
#pragma once

namespace coffer::trial {

// At rest. No step of the world.
void expect_clean_is_zero();

}  // namespace coffer::trial
