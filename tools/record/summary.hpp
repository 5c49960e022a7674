// SPDX-License-Identifier: MIT
// What coffer record says of a trace that is done.
#pragma once

#include "record/process.hpp"

namespace coffer::record {

// On stderr. What the user must know of it always, its size unless quiet.
void say_done(const Process& process, const Settings& settings, bool quiet);

}  // namespace coffer::record
