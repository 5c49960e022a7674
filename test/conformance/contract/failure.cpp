// SPDX-License-Identifier: MIT
// What the C, POSIX and glibc documents promise when memory cannot be had or an argument is bad.

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "harness.hpp"
#include "support/glibc_malloc.hpp"

using namespace conformance;

namespace {

constexpr std::size_t kLargest = PTRDIFF_MAX;
// Sizes that nobody can have: beyond PTRDIFF_MAX, near the end of size_t where rounding up wraps, and far more than any
// address space.
constexpr std::size_t kImpossible[] = {SIZE_MAX,           SIZE_MAX - 1,       SIZE_MAX - 7,        SIZE_MAX - 15,
                                       SIZE_MAX - 16,      SIZE_MAX - 63,      SIZE_MAX - 4095,     SIZE_MAX - 4096,
                                       SIZE_MAX - 32'768,  SIZE_MAX - 2097152, kLargest + 1,        kLargest + 4096,
                                       kLargest + 2097152, kLargest,           kLargest - 15,       kLargest - 4096,
                                       kLargest - 2097152, kLargest / 2 + 1,   std::size_t{1} << 60};

void expect_no_memory(const void* block, const char* what, std::size_t size) {
  const int error = errno;
  CHECK(block == nullptr, "%s(%zu)", what, size);
  CHECK(error == ENOMEM, "%s(%zu): errno %d", what, size, error);
  errno = 0;
}

}  // namespace

CASE(impossible_sizes_give_enomem) {
  errno = 0;
  for (const std::size_t size : kImpossible) {
    expect_no_memory(malloc(hide(size)), "malloc", size);
    expect_no_memory(calloc(hide(size), 1), "calloc", size);
    expect_no_memory(calloc(1, hide(size)), "calloc", size);
    expect_no_memory(realloc(nullptr, hide(size)), "realloc of NULL", size);
    expect_no_memory(reallocarray(nullptr, hide(size), 1), "reallocarray", size);
    expect_no_memory(valloc(hide(size)), "valloc", size);
    expect_no_memory(pvalloc(hide(size)), "pvalloc", size);
    for (std::size_t alignment = 8; alignment <= std::size_t{1} << 30; alignment *= 2) {
      expect_no_memory(aligned_alloc(alignment, hide(size)), "aligned_alloc", size);
      expect_no_memory(memalign(alignment, hide(size)), "memalign", size);
    }
  }
}

// It reports by its result. glibc sets errno, too, where there is no memory, and its test suite asks for that (issue
// 16).
CASE(posix_memalign_failure_leaves_result) {
  for (const std::size_t size : kImpossible) {
    for (std::size_t alignment = 8; alignment <= std::size_t{1} << 30; alignment *= 2) {
      void* result = &result;
      errno = 4321;
      const int status = posix_memalign(&result, alignment, hide(size));
      CHECK(status == ENOMEM, "posix_memalign(%zu, %zu) = %d", alignment, size, status);
      CHECK(result == &result, "posix_memalign(%zu, %zu) wrote its result", alignment, size);
      CHECK(errno == ENOMEM, "posix_memalign(%zu, %zu): errno %d", alignment, size, errno);
    }
  }
  for (const std::size_t alignment : {0, 1, 2, 3, 4, 7, 9, 12, 24, 48, 100, 4095, 4097, 12288}) {
    void* result = &result;
    errno = 4321;
    CHECK(posix_memalign(&result, hide(alignment), 100) == EINVAL, "alignment %zu", alignment);
    CHECK(result == &result && errno == 4321, "alignment %zu: errno %d", alignment, errno);
  }
  void* result = nullptr;
  errno = 4321;
  CHECK(posix_memalign(&result, 64, 100) == 0 && result != nullptr && errno == 4321);
  free(result);
}

// glibc before 2.38 rounds an alignment that is no power of two up instead of refusing it.
CASE(bad_alignments_give_einval) {
  for (const std::size_t alignment : {0, 3, 5, 6, 7, 9, 12, 24, 48, 100, 4095, 4097, 12288}) {
    errno = 0;
    void* block = aligned_alloc(hide(alignment), 4096);
    CHECK(block == nullptr && errno == EINVAL, "aligned_alloc(%zu): %p, errno %d", alignment, block, errno);
  }
  // memalign may refuse or round up, since programs exist that ask for it; it must not return something less aligned.
  for (std::size_t alignment = 1; alignment < 5000; ++alignment) {
    errno = 0;
    void* block = memalign(hide(alignment), 100);
    if (block == nullptr) {
      CHECK(errno == EINVAL && (alignment & (alignment - 1)) != 0, "memalign(%zu): errno %d", alignment, errno);
    } else {
      std::size_t rounded = 1;
      while (rounded < alignment) rounded *= 2;
      CHECK(reinterpret_cast<std::uintptr_t>(block) % rounded == 0, "memalign(%zu) = %p", alignment, block);
      free(block);
    }
  }
}

CASE(impossible_alignments_fail) {
  for (int shift = 47; shift < 64; ++shift) {
    const std::size_t alignment = std::size_t{1} << shift;
    errno = 0;
    void* block = aligned_alloc(hide(alignment), 64);
    CHECK(block == nullptr, "aligned_alloc(1 << %d)", shift);
    CHECK(errno == ENOMEM || errno == EINVAL, "aligned_alloc(1 << %d): errno %d", shift, errno);
    errno = 0;
    block = memalign(hide(alignment), 64);
    CHECK(block == nullptr, "memalign(1 << %d)", shift);
    CHECK(errno == ENOMEM || errno == EINVAL, "memalign(1 << %d): errno %d", shift, errno);
    void* result = &result;
    errno = 0;
    const int status = posix_memalign(&result, hide(alignment), 64);
    CHECK(status == ENOMEM || status == EINVAL, "posix_memalign(1 << %d) = %d", shift, status);
    CHECK(status == EINVAL || errno == ENOMEM, "posix_memalign(1 << %d): errno %d", shift, errno);
    CHECK(result == &result);
  }
}

CASE(calloc_overflow) {
  const std::size_t factors[] = {2,
                                 3,
                                 16,
                                 1 << 16,
                                 std::size_t{1} << 31,
                                 (std::size_t{1} << 32) - 1,
                                 std::size_t{1} << 32,
                                 (std::size_t{1} << 32) + 1,
                                 SIZE_MAX / 2 + 1,
                                 SIZE_MAX};
  errno = 0;
  for (const std::size_t a : factors) {
    for (const std::size_t b : factors) {
      std::size_t product = 0;
      if (!__builtin_mul_overflow(a, b, &product) && product <= kLargest) continue;
      expect_no_memory(calloc(hide(a), hide(b)), "calloc", a);
      expect_no_memory(reallocarray(nullptr, hide(a), hide(b)), "reallocarray", a);
      void* block = malloc(100);
      fill(block, 100, a);
      errno = 0;
      expect_no_memory(reallocarray(block, hide(a), hide(b)), "reallocarray", a);
      CHECK(holds_pattern(block, 100, a));
      free(block);
    }
  }
  // The product wraps to something small: the classic attack.
  expect_no_memory(calloc(hide(SIZE_MAX / 16 + 2), 16), "calloc", 16);
  for (void* block : {calloc(0, 16), calloc(16, 0), calloc(0, SIZE_MAX), calloc(SIZE_MAX, 0)}) {
    CHECK(block != nullptr);
    free(block);
  }
}

CASE(failed_realloc_leaves_the_block) {
  for (const std::size_t size : {1, 16, 24, 100, 1000, 5000, 20000, 40000, 100000, 1000000, 3000000, 40000000}) {
    auto* block = static_cast<unsigned char*>(malloc(size));
    CHECK(block != nullptr);
    fill(block, size, size);
    const std::size_t usable = malloc_usable_size(block);
    errno = 0;
    for (const std::size_t impossible : kImpossible) {
      expect_no_memory(realloc(block, hide(impossible)), "realloc", impossible);
      CHECK(malloc_usable_size(block) == usable);
      CHECK(holds_pattern(block, size, size), "size %zu, after realloc to %zu", size, impossible);
    }
    free(block);
  }
  check_metadata();
}

CASE(free_keeps_errno) {
  for (const std::size_t size : {0, 1, 100, 5000, 20000, 40000, 100000, 900000, 3000000, 100000000, 300000000}) {
    void* blocks[8];
    for (void*& block : blocks) {
      block = malloc(size);
      CHECK(block != nullptr);
      memset(block, 1, size);
    }
    for (void* block : blocks) {
      errno = 4242;
      free(block);
      CHECK(errno == 4242, "free of %zu bytes", size);
    }
  }
  // Many blocks: spans come and go.
  static void* many[20000];
  for (const std::size_t size : {16, 1000, 30000}) {
    const std::size_t count = size == 30000 ? 2000 : 20000;
    for (std::size_t i = 0; i < count; ++i) many[i] = malloc(size);
    for (std::size_t i = 0; i < count; ++i) {
      errno = static_cast<int>(i);
      free(many[i]);
      CHECK(errno == static_cast<int>(i), "size %zu", size);
    }
  }
  errno = 4242;
  free(nullptr);
  CHECK(errno == 4242);
}
