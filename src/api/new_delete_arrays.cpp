// SPDX-License-Identifier: MIT
// The basic forms for arrays. The standard defines them by the single ones, and the other forms for arrays by them: a
// program may replace these alone. In a file of their own, apart from those that they ask for and from those that ask
// for them (new_delete.hpp).
#include <new>

#include "api/new_delete.hpp"
#include "api/new_handler.hpp"
#include "api/shim.hpp"

#ifndef COFFER_PREFIX_ONLY

namespace api = coffer::api;
using coffer::Allocator;

COFFER_OPERATOR void* operator new[](std::size_t size) {
  if (COFFER_UNLIKELY(!api::owns_new())) return ::operator new(size);
  void* block = Allocator::allocate_fast(size);
  if (COFFER_LIKELY(block != nullptr)) return block;
  return api::new_slow(size, 0);
}

COFFER_OPERATOR void* operator new[](std::size_t size, std::align_val_t alignment) {
  return ::operator new(size, alignment);
}

COFFER_OPERATOR void operator delete[](void* block) noexcept {
  if (COFFER_UNLIKELY(!api::owns_delete())) return ::operator delete(block);
  Allocator::deallocate(block);
}

COFFER_OPERATOR void operator delete[](void* block, std::align_val_t alignment) noexcept {
  if (COFFER_UNLIKELY(!api::owns_aligned_delete())) return ::operator delete(block, alignment);
  Allocator::deallocate(block);
}

// As in new_delete.cpp.
__asm__(
    ".globl coffer_own_array_new, coffer_own_array_delete, coffer_own_aligned_array_new\n"
    ".globl coffer_own_aligned_array_delete\n"
    ".hidden coffer_own_array_new, coffer_own_array_delete, coffer_own_aligned_array_new\n"
    ".hidden coffer_own_aligned_array_delete\n"
    ".set coffer_own_array_new, _Znam\n"
    ".set coffer_own_array_delete, _ZdaPv\n"
    ".set coffer_own_aligned_array_new, _ZnamSt11align_val_t\n"
    ".set coffer_own_aligned_array_delete, _ZdaPvSt11align_val_t\n");

#endif
