// SPDX-License-Identifier: MIT
// What the hardened build finds wrong with a block: one line, then abort (harden/report.hpp).
#pragma once

#include "base/base.hpp"

namespace coffer::hardened {

// "coffer: free block 0x...: written to after it was freed (size class N)".
[[noreturn]] COFFER_COLD void report_touched(const void* block, usize have);
// "coffer: CALL of 0x...: written to behind its end (size class N)"; but if the block is free, that.
[[noreturn]] COFFER_COLD void report_broken(const char* call, void* block, usize have);
[[noreturn]] COFFER_COLD void report_freed(const char* call, const void* block, usize have);

}  // namespace coffer::hardened
