// SPDX-License-Identifier: MIT
// Runs a scene in the calling process, whose allocator must never have been used, and judges it. The first wrong thing
// ends the process (support/check.hpp).
#pragma once

#include "trial/scene.hpp"

namespace coffer::trial {

// In memory shared with whoever waits for the process.
struct Result {
  bool whole = false;  // it came to its end
  u64 operations = 0, steps = 0, hash = 0, kernel_calls = 0, failed_calls = 0, nulls = 0, threads = 0, switches = 0;
  u64 rests = 0;         // times that everything was looked at
  u64 longest_call = 0;  // in steps of its own thread
  u64 most_yields = 0;   // in a row
  u64 children = 0;      // processes that were forked, not counting those that these forked
  u64 misuses = 0;       // processes that did wrong and were ended with a report, in no child's child
  u64 choices_kept = 0;
  Switch choices[1 << 16];  // as far as they fit; the end of the process may come before the run's
  char failure[512];
};

void run_scene(const Scene& scene, Result* result);

}  // namespace coffer::trial
