// SPDX-License-Identifier: MIT
// In place of src/cpu/spin_hint.hpp, beside base/atomic.hpp of this folder.
#pragma once

#include "base/atomic.hpp"

namespace coffer {

inline void spin_hint() { recorded::pause(); }

}  // namespace coffer
