// SPDX-License-Identifier: MIT
// Worlds in child processes: each needs an allocator that was never used.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trial/world.hpp"

namespace coffer::trial {

struct Verdict {
  bool failed = false;
  std::string how;  // the first line of what went wrong
};

// Runs scenes side by side, `jobs` of them at a time. next(scene, number) gives one, or false: there is no other;
// done(number, verdict, result) is told of each, in the order of their ends, and says whether to go on.
void run_all(u32 jobs, const std::function<bool(Scene&, u64&)>& next,
             const std::function<bool(u64, const Verdict&, const Result&)>& done);

// One scene; its result is written to *result.
Verdict run_one(const Scene& scene, Result* result);

// The shortest failing scene that was found in `seconds`; in the end its order is given switch by switch. *cut_short:
// with more time it might be shorter.
Scene shrink(Scene scene, const Verdict& verdict, u32 seconds, bool* cut_short);

}  // namespace coffer::trial
