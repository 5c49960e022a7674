// SPDX-License-Identifier: MIT
// What the recorded cells report in a simulated build: hooks.cpp hands it to the machine.
#pragma once

// Accesses that no cell makes (links in free blocks, the program's own) the compiler reports, by the calls that it
// makes for ThreadSanitizer; those within a cell were reported already.
#define COFFER_UNRECORDED __attribute__((no_sanitize("thread")))

namespace coffer::recorded {

void access(const void* cell, usize bytes, Kind kind, const Place& at);
void failed(const void* cell, const Place& at);
void fence();
void pause();

}  // namespace coffer::recorded

#include "at_once.hpp"
