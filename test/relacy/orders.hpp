// SPDX-License-Identifier: MIT
// Where memory orders stand in the code, and the one that a run weakens.
#pragma once

#include <atomic>
#include <new>
#include <source_location>

#include <relacy/relacy.hpp>

// Relacy takes the names of the standard for itself; here they are the standard's.
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst
#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef errno

namespace coffer {

using Place = std::source_location;
inline rl::debug_info info_of(const Place& at) { return rl::debug_info(at.function_name(), at.file_name(), at.line()); }

enum class Role { load, store, both, failure };

// The order that Relacy is told: `order`, noted as used here, or a weaker one if this run asks for that.
rl::memory_order as_asked(std::memory_order order, Role role, Place at);

// Globals of the code that are made before the first simulation, and end after the last, have no cells then.
inline bool g_simulating = false;

// FILE:LINE:s or :f (the order of a failing CAS) and the order to have there; FILE without folders.
void weaken(const char* place_and_order);
// Prints every place with an order above relaxed that was passed, a line each: FILE:LINE:s ORDER FUNCTION.
void print_places();

}  // namespace coffer
