// SPDX-License-Identifier: MIT
// Idle pages of all mixed spans.
#pragma once

#include "base/base.hpp"

namespace coffer {

// Gives back the whole pages of mixed spans in which nothing is live. Returns their bytes.
usize purge_mixed_spans();
// A chore of the reclaimer: the same for spans in which nothing happened for a whole tick.
bool purge_mixed_that_wait();
bool purge_mixed_step();  // see Chore (pool/reclaimer.hpp)

}  // namespace coffer
