// SPDX-License-Identifier: MIT
// Idle pages of all mixed spans.
#pragma once

#include "base/base.hpp"

namespace coffer {

// Gives back the whole pages of mixed spans in which nothing is live. Returns their bytes.
usize purge_mixed_spans();
// For a call that makes the process grow: the same, up to so many bytes, by a bounded look that goes on where the last
// one stopped. true: it came to the end, and the next one begins anew.
bool purge_mixed_pages(usize bytes);
// A chore of the reclaimer: the same for spans in which nothing happened for a whole tick.
bool purge_mixed_that_wait();
bool purge_mixed_step();  // see Chore (pool/reclaimer.hpp)

}  // namespace coffer
