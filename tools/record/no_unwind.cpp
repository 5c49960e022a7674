// SPDX-License-Identifier: MIT
// Where unwind tables cannot be followed, which the collector says before anything is recorded.
#include "record/unwind.hpp"

namespace coffer::record {

bool start_unwinding() { return false; }
void note_unloading() {}
u32 unwind(u64, StackBounds, u32, Walker&, u32, u64&) { return 0; }

}  // namespace coffer::record
