// SPDX-License-Identifier: MIT
// Draws a world from a seed: what its threads do are plays, each of a kind of program; kernel, options and schedule are
// drawn beside.
#pragma once

#include "trial/scene.hpp"

namespace coffer::trial {

// `length`: operations, about. faults: whether system calls fail.
Scene draw(u64 seed, u64 length, bool faults = true);

}  // namespace coffer::trial
