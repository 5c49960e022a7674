// SPDX-License-Identifier: MIT
// What is wrong with a pointer that a caller gave.
#pragma once

#include "base/base.hpp"

namespace coffer {

// Reports and aborts. Not declared noreturn: the compiler would call it, with a stack frame, where it now jumps.
void refuse_free(void* block);
void refuse_size(void* block, usize size);
// Says what is wrong with a pointer that `call` was given, and aborts.
[[noreturn]] void report_bad_pointer(const char* call, void* block);

}  // namespace coffer
