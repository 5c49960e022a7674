// SPDX-License-Identifier: MIT
// What the derived forms of operator new and delete share with the four basic ones.
#pragma once

#include <new>

#include "record/recorder.hpp"

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wsized-deallocation"  // it wants the sized and the other forms in one file
#endif

#define RECORD_OPERATOR __attribute__((visibility("default")))

extern "C" {
// Hidden, defined in operators.cpp; never called by these names.
__attribute__((visibility("hidden"))) void coffer_record_new();
__attribute__((visibility("hidden"))) void coffer_record_delete();
__attribute__((visibility("hidden"))) void coffer_record_aligned_new();
__attribute__((visibility("hidden"))) void coffer_record_aligned_delete();
}

namespace coffer::record {

void delete_sized(void* block, std::size_t stated);
void delete_aligned_sized(void* block, std::size_t stated, std::align_val_t alignment);
// `is_ours`: the program has not put its own operator in place; what that gives need be no block.
void* new_nothrow(std::size_t size, bool is_ours);
void* new_aligned_nothrow(std::size_t size, std::align_val_t alignment, bool is_ours);

}  // namespace coffer::record
