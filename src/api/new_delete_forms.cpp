// SPDX-License-Identifier: MIT
// The forms of operator new and delete that the standard defines by the basic ones: nothrow, and with the block's size.
// See new_delete.hpp for the question that each asks first.
#include <new>

#include "api/new_delete.hpp"
#include "api/new_handler.hpp"
#include "api/shim.hpp"

#ifndef COFFER_PREFIX_ONLY

namespace coffer::api {

namespace {

COFFER_INLINE void* allocate_nothrow(usize size) {
  if (COFFER_UNLIKELY(!owns_new())) return replaced_new_nothrow(size);
  void* block = Allocator::allocate_fast(size);
  if (COFFER_LIKELY(block != nullptr)) return block;
  return new_slow_nothrow(size, 0);
}

COFFER_INLINE void* allocate_aligned_nothrow(usize size, std::align_val_t alignment) {
  if (COFFER_UNLIKELY(!owns_aligned_new())) return replaced_new_nothrow(size, alignment);
  return new_aligned_nothrow(size, alignment);
}

COFFER_INLINE void deallocate(void* block) {
  if (COFFER_UNLIKELY(!owns_delete())) return ::operator delete(block);
  Allocator::deallocate(block);
}

COFFER_INLINE void deallocate_sized(void* block, usize size) {
  if (COFFER_UNLIKELY(!owns_delete())) return ::operator delete(block);
  Allocator::deallocate_object(block, size);
}

COFFER_INLINE void deallocate_aligned(void* block, std::align_val_t alignment) {
  if (COFFER_UNLIKELY(!owns_aligned_delete())) return ::operator delete(block, alignment);
  Allocator::deallocate(block);
}

COFFER_INLINE void deallocate_aligned_sized(void* block, usize size, std::align_val_t alignment) {
  if (COFFER_UNLIKELY(!owns_aligned_delete())) return ::operator delete(block, alignment);
  if (size < static_cast<usize>(alignment)) return Allocator::deallocate(block);  // see coffer_free_aligned_sized
  Allocator::deallocate_sized(block, size);
}

}  // namespace

}  // namespace coffer::api

namespace api = coffer::api;

COFFER_OPERATOR void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return api::allocate_nothrow(size);
}

COFFER_OPERATOR void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  if (COFFER_UNLIKELY(!api::owns_array_new())) return api::replaced_array_new_nothrow(size);
  return api::allocate_nothrow(size);
}

COFFER_OPERATOR void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return api::allocate_aligned_nothrow(size, alignment);
}

COFFER_OPERATOR void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  if (COFFER_UNLIKELY(!api::owns_aligned_array_new())) return api::replaced_array_new_nothrow(size, alignment);
  return api::allocate_aligned_nothrow(size, alignment);
}

COFFER_OPERATOR void operator delete(void* block, const std::nothrow_t&) noexcept { api::deallocate(block); }

COFFER_OPERATOR void operator delete[](void* block, const std::nothrow_t&) noexcept {
  if (COFFER_UNLIKELY(!api::owns_array_delete())) return ::operator delete[](block);
  api::deallocate(block);
}

COFFER_OPERATOR void operator delete(void* block, std::size_t size) noexcept { api::deallocate_sized(block, size); }

COFFER_OPERATOR void operator delete[](void* block, std::size_t size) noexcept {
  if (COFFER_UNLIKELY(!api::owns_array_delete())) return ::operator delete[](block);
  api::deallocate_sized(block, size);
}

COFFER_OPERATOR void operator delete(void* block, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  api::deallocate_aligned(block, alignment);
}

COFFER_OPERATOR void operator delete[](void* block, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  if (COFFER_UNLIKELY(!api::owns_aligned_array_delete())) return ::operator delete[](block, alignment);
  api::deallocate_aligned(block, alignment);
}

COFFER_OPERATOR void operator delete(void* block, std::size_t size, std::align_val_t alignment) noexcept {
  api::deallocate_aligned_sized(block, size, alignment);
}

COFFER_OPERATOR void operator delete[](void* block, std::size_t size, std::align_val_t alignment) noexcept {
  if (COFFER_UNLIKELY(!api::owns_aligned_array_delete())) return ::operator delete[](block, alignment);
  api::deallocate_aligned_sized(block, size, alignment);
}

#endif
