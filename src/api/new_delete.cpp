// SPDX-License-Identifier: MIT
// The four operators that all others stand on: new and delete, with and without an alignment. The others are in
// new_delete_forms.cpp.
//
// All are weak symbols, so that a program linked with libcoffer.a may define its own.
#include <new>

#include "api/new_delete.hpp"
#include "api/new_handler.hpp"
#include "api/shim.hpp"

#ifndef COFFER_PREFIX_ONLY

using coffer::Allocator;
using coffer::api::new_aligned;
using coffer::api::new_slow;

COFFER_OPERATOR void* operator new(std::size_t size) {
  void* block = Allocator::allocate_fast(size);
  if (COFFER_LIKELY(block != nullptr)) return block;
  return new_slow(size, 0);
}

COFFER_OPERATOR void operator delete(void* block) noexcept { Allocator::deallocate(block); }

COFFER_OPERATOR void* operator new(std::size_t size, std::align_val_t alignment) {
  return new_aligned(size, alignment);
}

COFFER_OPERATOR void operator delete(void* block, std::align_val_t) noexcept { Allocator::deallocate(block); }

// Names of these very functions, whatever the program puts in their place. In assembly, so that the compiler does not
// know them for the same.
__asm__(
    ".globl coffer_own_new, coffer_own_delete, coffer_own_aligned_new, coffer_own_aligned_delete\n"
    ".hidden coffer_own_new, coffer_own_delete, coffer_own_aligned_new, coffer_own_aligned_delete\n"
    ".set coffer_own_new, _Znwm\n"
    ".set coffer_own_delete, _ZdlPv\n"
    ".set coffer_own_aligned_new, _ZnwmSt11align_val_t\n"
    ".set coffer_own_aligned_delete, _ZdlPvSt11align_val_t\n");

#endif
