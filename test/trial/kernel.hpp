// SPDX-License-Identifier: MIT
// The kernel of a world: os/fake, whose every call asks here first. Faults are a list, by the number of the call.
#pragma once

#include <vector>

#include "base/base.hpp"

namespace coffer::trial {

// fail: the calls from `call` on, `count` of them. slow: others may make `count` steps before the call is made.
enum class Effect : u8 { fail, slow };
struct Fault {
  u64 call;
  Effect effect;
  u64 count;
  u32 kinds = ~u32{0};  // of os::fake::Kind; others are counted, and are not meant
};

struct Kernel {
  std::vector<Fault> faults;
  u64 seed = 1;
  u32 processors = 4;
  bool roams = false;    // threads change their processor at each call
  bool sparse = false;   // processors have numbers far apart
  bool torn = false;     // a call that fails has done half of its work
  bool barrier = true;   // membarrier
  u64 memory_limit = 0;  // of the control group; 0: none
};
// Before the first call of the allocator, for this process.
void start_kernel(const Kernel& kernel);

// What changes while it runs. 0: the group has no limit.
void set_group_limit(u64 bytes);
void set_cores(u32 count, bool sparse);

// fork, with the handlers that the allocator has registered. In the child only the calling thread is there.
long fork_process();
// The same process once more, with all its threads; the allocator is not told, as it would be of a fork.
long copy_process();
// From now on every call for memory fails; or nothing does for this.
void refuse_memory(bool refuses);
// Calls that could have failed, and that did; the world's step at which one failed last; whether the last one of
// a kind that gets memory did.
u64 kernel_calls();
u64 failed_calls();
u64 last_failure();
bool memory_is_refused();

}  // namespace coffer::trial
