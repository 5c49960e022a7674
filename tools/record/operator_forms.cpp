// SPDX-License-Identifier: MIT
// The forms of operator new and delete that the standard defines by the basic ones. Where the program has replaced a
// basic one, all of its forms must end there, with this library as without.
#include "record/operators.hpp"

using namespace coffer::record;

namespace {

template <class Function>
bool is_own(Function* operator_in_use, void (*own)()) {
  __asm__("" : "+r"(own));  // two names are two functions, so a compiler may think it knows the answer
  return reinterpret_cast<void (*)()>(operator_in_use) == own;
}
bool owns_new() { return is_own<void*(std::size_t)>(&::operator new, &coffer_record_new); }
bool owns_delete() { return is_own<void(void*) noexcept>(&::operator delete, &coffer_record_delete); }
bool owns_aligned_new() {
  return is_own<void*(std::size_t, std::align_val_t)>(&::operator new, &coffer_record_aligned_new);
}
bool owns_aligned_delete() {
  return is_own<void(void*, std::align_val_t) noexcept>(&::operator delete, &coffer_record_aligned_delete);
}

void sized(void* block, std::size_t size) {
  if (owns_delete()) return delete_sized(block, size);
  ::operator delete(block);
}
void sized(void* block, std::size_t size, std::align_val_t alignment) {
  if (owns_aligned_delete()) return delete_aligned_sized(block, size, alignment);
  ::operator delete(block, alignment);
}

}  // namespace

RECORD_OPERATOR void* operator new[](std::size_t size) { return ::operator new(size); }
RECORD_OPERATOR void* operator new[](std::size_t size, std::align_val_t alignment) {
  return ::operator new(size, alignment);
}
RECORD_OPERATOR void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return new_nothrow(size, owns_new());
}
RECORD_OPERATOR void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return new_nothrow(size, owns_new());
}
RECORD_OPERATOR void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return new_aligned_nothrow(size, alignment, owns_aligned_new());
}
RECORD_OPERATOR void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return new_aligned_nothrow(size, alignment, owns_aligned_new());
}

RECORD_OPERATOR void operator delete[](void* block) noexcept { ::operator delete(block); }
RECORD_OPERATOR void operator delete(void* block, const std::nothrow_t&) noexcept { ::operator delete(block); }
RECORD_OPERATOR void operator delete[](void* block, const std::nothrow_t&) noexcept { ::operator delete(block); }
RECORD_OPERATOR void operator delete[](void* block, std::align_val_t alignment) noexcept {
  ::operator delete(block, alignment);
}
RECORD_OPERATOR void operator delete(void* block, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  ::operator delete(block, alignment);
}
RECORD_OPERATOR void operator delete[](void* block, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  ::operator delete(block, alignment);
}
RECORD_OPERATOR void operator delete(void* block, std::size_t size) noexcept { sized(block, size); }
RECORD_OPERATOR void operator delete[](void* block, std::size_t size) noexcept { sized(block, size); }
RECORD_OPERATOR void operator delete(void* block, std::size_t size, std::align_val_t alignment) noexcept {
  sized(block, size, alignment);
}
RECORD_OPERATOR void operator delete[](void* block, std::size_t size, std::align_val_t alignment) noexcept {
  sized(block, size, alignment);
}
