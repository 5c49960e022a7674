// SPDX-License-Identifier: MIT
// The names of the simulated program's own functions and variables, from its symbol table.
#pragma once

#include <string>

#include "costs.hpp"

namespace simulation {

// The function that an address lies in; "": the table does not say.
std::string function_at(uptr address);
// The variables that lie on a cache line, in order; of those that begin before it also how far.
std::string variables_on(uptr line);

}  // namespace simulation
