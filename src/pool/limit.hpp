// SPDX-License-Identifier: MIT
// What is given back for the limit on resident memory (budget/budget.hpp), and near the limits of the process's cgroup.
#pragma once

#include "budget/budget.hpp"
#include "policy/kept.hpp"

namespace coffer {

// Bytes; 0: none. Counts for memory taken from now on; what is free goes back at once if that is over it.
void set_limit(usize bytes);

// After a charge or a request failed under a limit: gives back all free memory that is resident. true: something was
// given back, or another thread just did, so that trying again is worth it. `own`: bytes of a run that the caller has
// claimed which count as free as yet; they come back from nobody.
bool make_room(usize own = 0);
// Charges `bytes`, making room if need be. `own`: see make_room.
bool charge_or_purge(usize bytes, usize own = 0);

// Whether the limit leaves no slice, and nothing could be given back for one.
bool is_limit_reached();

// Whether Coffer holds so much that a limit of the process's cgroup is near: beyond 7/8 of it. Free memory then goes
// back at once, but for kNegligible.
bool limit_pressure();
// Reads the limits when there is enough to make them matter, and again whenever what Coffer holds has doubled since.
// That takes 40 us, so it is for calls that take new memory, which costs as much, and never for one that frees.
void look_at_group_limit();
// Called when `taken` bytes of new memory were taken: under pressure, free memory goes back for them.
void relieve_pressure(usize taken);

}  // namespace coffer
