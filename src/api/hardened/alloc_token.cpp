// SPDX-License-Identifier: MIT
// Type partitions: what clang 22 and newer call in place of malloc and its kin with -fsanitize=alloc-token. It hands
// over a token that says of which type the block is. With its usual choice of tokens the upper half of them is of types
// that hold pointers. Their blocks get spans of their own: who overruns a block of bytes, or uses one after it was
// freed, meets no pointer.
//
//   __alloc_token_malloc(size, token)    a token of any size
//   __alloc_token_1_malloc(size)         the fast ABI with -falloc-token-max=2: 0 for bytes, 1 for pointers
//
// What is aligned to more than 16 bytes, and what needs a large block, is not parted. realloc leaves a block where its
// first call put it.
#include <errno.h>

#include <new>

#include "api/new_handler.hpp"
#include "api/shim.hpp"
#include "base/bits.hpp"
#include "coffer/coffer.h"

namespace coffer::api {

namespace {

constexpr usize kMostParted = 32 * 1024;  // what is longer may be a large block, which calloc clears
COFFER_INLINE bool holds_pointers(usize token) { return token >> 63 != 0; }

// nullptr: the way of every block has to serve, which fails as it should.
COFFER_INLINE void* allocate_parted(usize size, bool pointers) {
  return pointers && size <= kMaxSize ? Allocator::allocate_pointers(size) : nullptr;
}

COFFER_INLINE void* allocate(usize size, bool pointers) {
  void* const block = allocate_parted(size, pointers);
  return block != nullptr ? block : coffer_malloc(size);
}

COFFER_INLINE void* allocate_zeroed(usize count, usize size, bool pointers) {
  usize total;
  if (!pointers || __builtin_mul_overflow(count, size, &total) || total > kMostParted) {
    return coffer_calloc(count, size);
  }
  return allocate(total, pointers);  // every block is zero
}

COFFER_INLINE void* reallocate(void* block, usize size, bool pointers) {
  return block == nullptr ? allocate(size, pointers) : coffer_realloc(block, size);
}

COFFER_INLINE void* reallocate_array(void* block, usize count, usize size, bool pointers) {
  usize total;
  if (!__builtin_mul_overflow(count, size, &total)) return reallocate(block, total, pointers);
  errno = ENOMEM;
  return nullptr;
}

COFFER_INLINE void* make_object(usize size, bool pointers) {
  void* const block = allocate_parted(size, pointers);
  return block != nullptr ? block : new_slow(size, 0);
}

COFFER_INLINE void* make_object_nothrow(usize size, bool pointers) noexcept {
  void* const block = allocate_parted(size, pointers);
  return block != nullptr ? block : new_slow_nothrow(size, 0);
}

}  // namespace

extern "C" {

// The functions of C, with NAME before their own names, further parameters MORE, and POINTERS.
#define COFFER_TOKEN_FUNCTIONS(NAME, MORE, POINTERS)                                                           \
  COFFER_VISIBLE void* NAME##malloc(size_t size MORE) noexcept { return allocate(size, POINTERS); }            \
  COFFER_VISIBLE void* NAME##calloc(size_t count, size_t size MORE) noexcept {                                 \
    return allocate_zeroed(count, size, POINTERS);                                                             \
  }                                                                                                            \
  COFFER_VISIBLE void* NAME##realloc(void* block, size_t size MORE) noexcept {                                 \
    return reallocate(block, size, POINTERS);                                                                  \
  }                                                                                                            \
  COFFER_VISIBLE void* NAME##reallocarray(void* block, size_t count, size_t size MORE) noexcept {              \
    return reallocate_array(block, count, size, POINTERS);                                                     \
  }                                                                                                            \
  COFFER_VISIBLE void* NAME##aligned_alloc(size_t alignment, size_t size MORE) noexcept {                      \
    return alignment <= kBlockAlignment && is_power_of_two(alignment) ? allocate(size, POINTERS)               \
                                                                      : coffer_aligned_alloc(alignment, size); \
  }                                                                                                            \
  COFFER_VISIBLE void* NAME##memalign(size_t alignment, size_t size MORE) noexcept {                           \
    return alignment <= kBlockAlignment ? allocate(size, POINTERS) : coffer_memalign(alignment, size);         \
  }                                                                                                            \
  COFFER_VISIBLE int NAME##posix_memalign(void** result, size_t alignment, size_t size MORE) noexcept {        \
    return coffer_posix_memalign(result, alignment, size);                                                     \
  }                                                                                                            \
  COFFER_VISIBLE void* NAME##valloc(size_t size MORE) noexcept { return coffer_valloc(size); }                 \
  COFFER_VISIBLE void* NAME##pvalloc(size_t size MORE) noexcept { return coffer_pvalloc(size); }               \
  COFFER_VISIBLE void* NAME##_Znwm(size_t size MORE) { return make_object(size, POINTERS); }                   \
  COFFER_VISIBLE void* NAME##_Znam(size_t size MORE) { return make_object(size, POINTERS); }                   \
  COFFER_VISIBLE void* NAME##_ZnwmRKSt9nothrow_t(size_t size, const std::nothrow_t& MORE) noexcept {           \
    return make_object_nothrow(size, POINTERS);                                                                \
  }                                                                                                            \
  COFFER_VISIBLE void* NAME##_ZnamRKSt9nothrow_t(size_t size, const std::nothrow_t& MORE) noexcept {           \
    return make_object_nothrow(size, POINTERS);                                                                \
  }                                                                                                            \
  COFFER_VISIBLE void* NAME##_ZnwmSt11align_val_t(size_t size, std::align_val_t alignment MORE) {              \
    return new_aligned(size, alignment);                                                                       \
  }                                                                                                            \
  COFFER_VISIBLE void* NAME##_ZnamSt11align_val_t(size_t size, std::align_val_t alignment MORE) {              \
    return new_aligned(size, alignment);                                                                       \
  }                                                                                                            \
  COFFER_VISIBLE void* NAME##_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, std::align_val_t alignment,       \
                                                                const std::nothrow_t& MORE) noexcept {         \
    return new_aligned_nothrow(size, alignment);                                                               \
  }                                                                                                            \
  COFFER_VISIBLE void* NAME##_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, std::align_val_t alignment,       \
                                                                const std::nothrow_t& MORE) noexcept {         \
    return new_aligned_nothrow(size, alignment);                                                               \
  }

#define COFFER_TOKEN_PARAMETER , [[maybe_unused]] size_t token
#define COFFER_NO_PARAMETER

COFFER_TOKEN_FUNCTIONS(__alloc_token_, COFFER_TOKEN_PARAMETER, holds_pointers(token))
COFFER_TOKEN_FUNCTIONS(__alloc_token_0_, COFFER_NO_PARAMETER, false)
COFFER_TOKEN_FUNCTIONS(__alloc_token_1_, COFFER_NO_PARAMETER, true)

}  // extern "C"

}  // namespace coffer::api
