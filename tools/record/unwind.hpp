// SPDX-License-Identifier: MIT
// Call stacks by unwind tables, which are read once for each object that is mapped: at the process's start, and when an
// address comes up that no table covers, or an object was unloaded. Walking takes no lock, allocates nothing, and reads
// nothing but the thread's stack; a signal handler may do it.
#pragma once

#include "trace/format.hpp"

namespace coffer::record {

using trace::u32;
using trace::u64;
using trace::u8;

struct StackBounds {
  u64 low = 0, high = 0;

  bool holds(u64 at) const { return (at & 7) == 0 && at >= low && at < high && high - at >= 8; }
};
// The stack that this address is on; empty if there is none. Keeps errno. The buffer: see for_each_mapping.
StackBounds stack_at(u64 address, char* buffer);

// Reads the tables of what is mapped. Again in a fork child. false: not possible here.
bool start_unwinding();
// Something was unloaded: tables may be of what is not there any more.
void note_unloading();
class Walker;

// Return addresses from that of the function whose frame pointer this is, at most `most`, in the walker, which was
// entered; and their hash (last_walk.hpp). `beat`: a clock that goes every few milliseconds.
u32 unwind(u64 frame, StackBounds bounds, u32 beat, Walker& walker, u32 most, u64& hash);
// The same hash of any return addresses, the innermost first.
u64 hash_of_stack(const u64* frames, u32 count);

}  // namespace coffer::record
