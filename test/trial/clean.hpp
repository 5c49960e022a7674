// SPDX-License-Identifier: MIT
// What the allocator takes for clean is zero: free slots that are not dirty, pages of spans that no block touched, and
// pages of mixed spans that are absent. calloc clears none of these; one that is not zero may wait long for a calloc.
#pragma once

namespace coffer::trial {

// At rest. No step of the world.
void expect_clean_is_zero();
// What is free is found: the map of room has it. What it has lost comes back with the next slots of the chunk that are
// given back, so that the end of a world does not show it. As above.
void expect_room_is_known();

}  // namespace coffer::trial
