// SPDX-License-Identifier: MIT
// Cuts a failing sequence down (delta debugging). Each trial runs in a child process of its own, from an allocator that
// was never used.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "property/operation.hpp"

namespace coffer::test {

struct Outcome {
  bool failed = false;
  std::string how;         // what was wrong, or which signal
  std::uint64_t done = 0;  // operations begun; the last of them failed
};

// Runs body(progress) in a child; body keeps the number of operations begun in *progress. A child that takes longer
// than `seconds` failed too. quiet: its stderr is thrown away.
Outcome run_in_child(const std::function<void(volatile std::uint64_t* progress)>& body, unsigned seconds, bool quiet);

// The smallest failing part of `operations` that was found within `seconds`. fails(part) runs it.
Operations shrink(Operations operations, const std::function<Outcome(const Operations&)>& fails, unsigned seconds);

}  // namespace coffer::test
