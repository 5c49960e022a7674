// SPDX-License-Identifier: MIT
// What is told of a guarded block that was misused: on stderr, and in the file of the option `crash_report`.
#pragma once

#include "guard/guard.hpp"

namespace coffer::guard {

// Has faults in the range told from now on, before a handler of the program's sees them. false: not possible.
bool watch_faults();

// In a fork child: whoever was writing a report is not here.
void forget_reporters();

enum class Misuse : u8 { overflow, underflow, use_after_free, double_free, invalid_free, wrong_size };
// Tells it, and aborts. `record`: nullptr: no block is known there. `given`: the size that was named, or kNoSize.
[[noreturn]] COFFER_COLD void refuse(Misuse what, const char* call, uptr address, const Record* record,
                                     usize given = kNoSize);

}  // namespace coffer::guard
