// SPDX-License-Identifier: MIT
// pthread keys of threads that are fibers. The linker sends the simulated code's calls to keys.cpp (--wrap).
#pragma once

#include <map>

#include "costs.hpp"

namespace simulation {

// What the running thread set by pthread_setspecific; nullptr: none runs. Whoever schedules fibers defines it.
std::map<u32, void*>* current_specific();

// The destructors of what it set.
void run_destructors();

}  // namespace simulation
