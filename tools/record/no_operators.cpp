// SPDX-License-Identifier: MIT
// For allocators that leave operator new to the C++ runtime: it comes to malloc by itself.
#include "record/recorder.hpp"

namespace coffer::record {

void find_operators() {}

}  // namespace coffer::record
