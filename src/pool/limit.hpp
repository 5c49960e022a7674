// SPDX-License-Identifier: MIT
// The limit on resident memory (observe/budget.hpp counts what is charged to it), and the limits of the process's
// cgroup, near which purging grows eager.
#pragma once

#include "observe/budget.hpp"

namespace coffer {

// Puts the option `limit` in force, unless the program has set one already.
void limit_start();
// Bytes; 0: none. Counts for memory taken from now on; what is free goes back at once if that is over it.
void set_limit(usize bytes);
usize get_limit();

// After a charge or a request failed under a limit: gives back all free memory that is resident. true: something was
// given back, or another thread just did, so that trying again is worth it. `own`: bytes of a run that the caller has
// claimed which count as free as yet; they come back from nobody.
bool make_room(usize own = 0);
// Whether the limit leaves so many bytes beside the records, which never go back. false: no purge can help.
bool limit_could_allow(usize bytes);
// Charges `bytes`, making room if need be. `own`: see make_room.
bool charge_or_purge(usize bytes, usize own = 0);

// Whether Coffer holds so much that a limit of the process's cgroup is near: beyond 7/8 of it. Free memory then goes
// back at once, but for kPressureFloor. The limits are read here, when there is enough to make them matter, and again
// whenever what Coffer holds has doubled since.
bool limit_pressure();
inline constexpr usize kPressureFloor = 256 * 1024;
// Called when `taken` bytes of new memory were taken: under pressure, free memory goes back for them.
void relieve_pressure(usize taken);

}  // namespace coffer
