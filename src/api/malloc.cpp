// SPDX-License-Identifier: MIT
// The allocation functions of C, under their coffer_ names and, unless COFFER_PREFIX_ONLY is defined, under their own.
//
//   malloc ── Allocator::allocate_fast ── block
//      └─ nothing there ── allocate_or_fail: size check, Allocator::allocate, errno
//   calloc ── up to 256 bytes as malloc, and zeros by a few stores; else Allocator::allocate_zeroed
//   free ── Allocator::deallocate, inline
//
// The allocator knows nothing of errno nor of bad arguments; all that is settled here.
#include <errno.h>

#include "api/c_library.hpp"
#include "api/lifetime.hpp"
#include "api/shim.hpp"
#include "base/hardening.hpp"
#include "base/zero.hpp"
#include "coffer/coffer.h"
#include "os/os.hpp"

namespace coffer::api {

namespace {

COFFER_COLD void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

COFFER_COLD void* invalid_argument() {
  errno = EINVAL;
  return nullptr;
}

// Out of line, so that malloc itself needs no stack frame.
COFFER_NOINLINE void* allocate_or_fail(usize size) {
  if (COFFER_LIKELY(size <= kMaxSize)) {
    void* block = Allocator::allocate(size);
    if (COFFER_LIKELY(block != nullptr)) return block;
    if ((block = allocate_from_system(size, 0)) != nullptr) return block;
  }
  return out_of_memory();
}

COFFER_NOINLINE void* allocate_zeroed_or_fail(usize size) {
  if (COFFER_LIKELY(size <= kMaxSize)) {
    void* block = Allocator::allocate_zeroed(size);
    if (COFFER_LIKELY(block != nullptr)) return block;
    if ((block = allocate_zeroed_from_system(size)) != nullptr) return block;
  }
  return out_of_memory();
}

COFFER_NOINLINE void* allocate_aligned_or_fail(usize alignment, usize size) {
  void* block = allocate_aligned(alignment, size);
  return COFFER_LIKELY(block != nullptr) ? block : out_of_memory();
}

}  // namespace

// A program that links libcoffer_core.a takes from it only the objects that it refers to. It refers to this one, and
// this one to the object that acts at load and exit.
__attribute__((used)) static const void* const keep_lifetime = &lifetime_linked;

extern "C" {

COFFER_VISIBLE void* coffer_malloc(size_t size) noexcept {
  void* block = Allocator::allocate_fast(size);
  if (COFFER_LIKELY(block != nullptr)) return block;
  return allocate_or_fail(size);
}

// Keeps errno, as POSIX demands since its issue 8: nothing below changes it.
COFFER_VISIBLE void coffer_free(void* block) noexcept { Allocator::deallocate(block); }

COFFER_VISIBLE void* coffer_calloc(size_t count, size_t size) noexcept {
  usize total;
  if (COFFER_UNLIKELY(__builtin_mul_overflow(count, size, &total))) return out_of_memory();
  if (COFFER_LIKELY(total <= kMostZeroedInline)) {
    void* block = Allocator::allocate_fast(total);
    if (COFFER_LIKELY(block != nullptr)) {
      // Also where it is zero already: to know that would take as long. Of the hardened build, which has something
      // behind it, all blocks are.
      if constexpr (!kHardening.zeroes) zero_small(block, total);
      return block;
    }
  }
  return allocate_zeroed_or_fail(total);
}

// Size 0 frees the block and gives NULL, with errno as it was: glibc's choice among those that C allows, and the one
// that programs written for Linux rely on. A program that sees NULL then must not free the block again.
COFFER_VISIBLE void* coffer_realloc(void* block, size_t size) noexcept {
  if (block == nullptr) return coffer_malloc(size);
  if (COFFER_UNLIKELY(size == 0)) {
    Allocator::deallocate(block);
    return nullptr;
  }
  if (COFFER_UNLIKELY(size > kMaxSize)) return out_of_memory();
  void* moved = Allocator::reallocate(block, size);
  return COFFER_LIKELY(moved != nullptr) ? moved : out_of_memory();
}

// As C17: the size need not be a multiple of the alignment.
COFFER_VISIBLE void* coffer_aligned_alloc(size_t alignment, size_t size) noexcept {
  if (COFFER_UNLIKELY(!is_power_of_two(alignment))) return invalid_argument();
  return allocate_aligned_or_fail(alignment, size);
}

// Reports by its result; *result stays as it was on failure. POSIX leaves open what becomes of errno. As glibc's: it is
// ENOMEM where there is no memory, and stays as it was for a bad alignment.
COFFER_VISIBLE int coffer_posix_memalign(void** result, size_t alignment, size_t size) noexcept {
  if (COFFER_UNLIKELY(!is_power_of_two(alignment) || alignment % sizeof(void*) != 0)) return EINVAL;
  void* block = allocate_aligned_or_fail(alignment, size);
  if (COFFER_UNLIKELY(block == nullptr)) return ENOMEM;
  *result = block;
  return 0;
}

// As glibc's: an alignment that is no power of two is rounded up to one.
COFFER_VISIBLE void* coffer_memalign(size_t alignment, size_t size) noexcept {
  constexpr usize kMaxAlignment = SIZE_MAX / 2 + 1;
  if (COFFER_UNLIKELY(alignment > kMaxAlignment)) return invalid_argument();
  if (alignment <= kBlockAlignment) return coffer_malloc(size);
  const u32 order = 64 - static_cast<u32>(__builtin_clzll(alignment - 1));
  return allocate_aligned_or_fail(usize{1} << order, size);
}

COFFER_VISIBLE void* coffer_valloc(size_t size) noexcept { return allocate_aligned_or_fail(os::page_size(), size); }

// Whole pages; one page for size 0.
COFFER_VISIBLE void* coffer_pvalloc(size_t size) noexcept {
  const usize page = os::page_size();
  if (COFFER_UNLIKELY(size > kMaxSize - page)) return out_of_memory();
  const usize rounded = (size + page - 1) & ~(page - 1);
  return allocate_aligned_or_fail(page, rounded != 0 ? rounded : page);
}

COFFER_VISIBLE size_t coffer_malloc_usable_size(void* block) noexcept {
  return block != nullptr ? Allocator::usable_size(block) : 0;
}

// The sizes are checked, not trusted: see deallocate_sized.
COFFER_VISIBLE void coffer_free_sized(void* block, size_t size) noexcept { Allocator::deallocate_sized(block, size); }

COFFER_VISIBLE void coffer_free_aligned_sized(void* block, size_t alignment, size_t size) noexcept {
  // A block with an alignment that is larger may be as long as either says.
  if (size < alignment) return Allocator::deallocate(block);
  Allocator::deallocate_sized(block, size);
}

#ifndef COFFER_PREFIX_ONLY

COFFER_ALIAS(coffer_malloc) void* malloc(size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_free) void free(void* block) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_calloc) void* calloc(size_t count, size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_realloc) void* realloc(void* block, size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_aligned_alloc) void* aligned_alloc(size_t alignment, size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_posix_memalign) int posix_memalign(void** result, size_t alignment, size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_memalign) void* memalign(size_t alignment, size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_valloc) void* valloc(size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_pvalloc) void* pvalloc(size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_malloc_usable_size) size_t malloc_usable_size(void* block) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_free_sized) void free_sized(void* block, size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_free_aligned_sized)
void free_aligned_sized(void* block, size_t alignment, size_t size) COFFER_AS_DECLARED;
// Left glibc's headers in 2.26; programs built before still call it.
COFFER_ALIAS(coffer_free) void cfree(void* block) COFFER_AS_DECLARED;

// glibc's own names for the same functions. Wrappers call them to reach "the real malloc" and then free the block with
// free. In a static program they do more: a reference to one that Coffer lacks takes in glibc's malloc.o, and with it
// a second malloc.
COFFER_ALIAS(coffer_malloc) void* __libc_malloc(size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_free) void __libc_free(void* block) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_calloc) void* __libc_calloc(size_t count, size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_realloc) void* __libc_realloc(void* block, size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_memalign) void* __libc_memalign(size_t alignment, size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_valloc) void* __libc_valloc(size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_pvalloc) void* __libc_pvalloc(size_t size) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_free) void __libc_cfree(void* block) COFFER_AS_DECLARED;
COFFER_ALIAS(coffer_posix_memalign)
int __posix_memalign(void** result, size_t alignment, size_t size) COFFER_AS_DECLARED;

#endif

}  // extern "C"

}  // namespace coffer::api
