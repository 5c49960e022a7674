// SPDX-License-Identifier: MIT
// What is asked of a thread wherever it is just now: by the handlers of share_signal, profile_signal and dump_signal,
// and by tools/attach.
#pragma once

#include "base/base.hpp"

namespace coffer::trial {

// Figures are written, or a profile begins, is written, ends.
enum class Shown : u32 { figures, begin, profile, end };

// As steps of the thread, in the midst of its call.
void show(Shown what);

}  // namespace coffer::trial
