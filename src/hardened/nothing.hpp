// SPDX-License-Identifier: MIT
// Blocks of size 0: addresses in a range that nobody may touch, each a different one.
#pragma once

#include "base/base.hpp"

namespace coffer::hardened {

// nullptr: there are none left, or no address space.
void* allocate_nothing();
bool is_nothing(const void* block);
// Reports what is not one.
void check_nothing(const char* call, void* block);
void release_nothing(void* block, usize given);

}  // namespace coffer::hardened
