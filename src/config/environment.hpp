// SPDX-License-Identifier: MIT
// The process's environment, readable from the first instruction of Coffer on.
#pragma once

#include "base/base.hpp"

namespace coffer::config {

// The environment as "NAME=value" strings with a null pointer at the end; nullptr if there is none.
char** environment();

// The value of a variable, or nullptr.
const char* find_variable(const char* name);

// The environment in the memory the kernel handed over at exec, of which `start` is the first word (argc); nullptr if
// that is not what lies there.
char** environment_after(uptr* start);

}  // namespace coffer::config
