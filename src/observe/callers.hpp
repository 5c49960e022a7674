// SPDX-License-Identifier: MIT
// Who called Coffer.
#pragma once

#include "base/base.hpp"

namespace coffer {

// As os::call_stack, without Coffer's own functions, where Coffer is a library.
u32 find_callers(uptr* frames, u32 most);

}  // namespace coffer
