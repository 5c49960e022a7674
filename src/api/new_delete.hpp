// SPDX-License-Identifier: MIT
// Whether the program has put its own functions in the place of Coffer's basic operators.
//
// The standard says that a program may replace `operator new(size)` and `operator delete(block)` alone, or their forms
// for arrays, and that all other forms then end there. A sized delete that took the block for its own would end a
// program that cuts its blocks from a pool. So the other forms ask first: the address that the dynamic linker gives for
// an operator against the one that Coffer knows for its own. It is a load and a compare.
#pragma once

#include <new>

#include "base/base.hpp"

#ifndef __clang__
#pragma GCC diagnostic ignored "-Wsized-deallocation"  // it wants the sized and the other forms in one file
#endif

#define COFFER_OPERATOR __attribute__((weak, visibility("default")))

extern "C" {
// Hidden, defined in new_delete.cpp and new_delete_arrays.cpp; never called by these names. Those who ask are in
// another file than the operators: within one, a compiler may take the address of the operator there for the one in
// use.
__attribute__((visibility("hidden"))) void coffer_own_new();
__attribute__((visibility("hidden"))) void coffer_own_delete();
__attribute__((visibility("hidden"))) void coffer_own_aligned_new();
__attribute__((visibility("hidden"))) void coffer_own_aligned_delete();
__attribute__((visibility("hidden"))) void coffer_own_array_new();
__attribute__((visibility("hidden"))) void coffer_own_array_delete();
__attribute__((visibility("hidden"))) void coffer_own_aligned_array_new();
__attribute__((visibility("hidden"))) void coffer_own_aligned_array_delete();
}

namespace coffer::api {

template <class Function>
COFFER_INLINE bool is_own(Function* operator_in_use, void (*own)()) {
  // Two names are two functions, so a compiler may think it knows the answer.
  __asm__("" : "+r"(own));
  return COFFER_LIKELY(reinterpret_cast<void (*)()>(operator_in_use) == own);
}

COFFER_INLINE bool owns_new() { return is_own<void*(std::size_t)>(&::operator new, &coffer_own_new); }
COFFER_INLINE bool owns_delete() { return is_own<void(void*) noexcept>(&::operator delete, &coffer_own_delete); }
COFFER_INLINE bool owns_aligned_new() {
  return is_own<void*(std::size_t, std::align_val_t)>(&::operator new, &coffer_own_aligned_new);
}
COFFER_INLINE bool owns_aligned_delete() {
  return is_own<void(void*, std::align_val_t) noexcept>(&::operator delete, &coffer_own_aligned_delete);
}

COFFER_INLINE bool owns_array_new() { return is_own<void*(std::size_t)>(&::operator new[], &coffer_own_array_new); }
COFFER_INLINE bool owns_array_delete() {
  return is_own<void(void*) noexcept>(&::operator delete[], &coffer_own_array_delete);
}
COFFER_INLINE bool owns_aligned_array_new() {
  return is_own<void*(std::size_t, std::align_val_t)>(&::operator new[], &coffer_own_aligned_array_new);
}
COFFER_INLINE bool owns_aligned_array_delete() {
  return is_own<void(void*, std::align_val_t) noexcept>(&::operator delete[], &coffer_own_aligned_array_delete);
}

}  // namespace coffer::api
