// SPDX-License-Identifier: MIT
// The contract of the C functions, by their coffer_ names. test/conformance holds the same and more of a whole process
// under LD_PRELOAD; here every branch of the shim is met once.
#include <coffer/coffer.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/base.hpp"

namespace coffer {
namespace {

constexpr usize kTooMuch = usize{PTRDIFF_MAX} + 1;

bool aligned(void* block, usize alignment) { return reinterpret_cast<uptr>(block) % alignment == 0; }

// The error that a call leaves behind, from none before.
template <class Function>
int error_of(Function call) {
  errno = 0;
  call();
  return errno;
}

TEST(Malloc, GivesDistinctUsableAlignedBlocks) {
  std::vector<void*> blocks;
  for (usize size : {usize{0}, usize{1}, usize{16}, usize{100}, usize{5000}, usize{100'000}, usize{3'000'000}}) {
    void* block = coffer_malloc(size);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(aligned(block, 16));
    EXPECT_GE(coffer_malloc_usable_size(block), size);
    std::memset(block, 0xa5, coffer_malloc_usable_size(block));
    blocks.push_back(block);
  }
  for (usize i = 1; i < blocks.size(); ++i) EXPECT_NE(blocks[i - 1], blocks[i]);
  for (void* block : blocks) coffer_free(block);
}

TEST(Malloc, TooMuchIsEnomem) {
  for (usize size : {kTooMuch, SIZE_MAX - 100, SIZE_MAX}) {
    void* block = &block;
    EXPECT_EQ(error_of([&] { block = coffer_malloc(size); }), ENOMEM);
    EXPECT_EQ(block, nullptr);
    EXPECT_EQ(error_of([&] { block = coffer_realloc(nullptr, size); }), ENOMEM);
    EXPECT_EQ(error_of([&] { block = coffer_calloc(1, size); }), ENOMEM);
    EXPECT_EQ(error_of([&] { block = coffer_calloc(size, 1); }), ENOMEM);
    EXPECT_EQ(error_of([&] { block = coffer_aligned_alloc(64, size); }), ENOMEM);
    EXPECT_EQ(error_of([&] { block = coffer_memalign(8, size); }), ENOMEM);
    EXPECT_EQ(error_of([&] { block = coffer_memalign(4096, size); }), ENOMEM);
    EXPECT_EQ(error_of([&] { block = coffer_valloc(size); }), ENOMEM);
    EXPECT_EQ(error_of([&] { block = coffer_pvalloc(size); }), ENOMEM);
    EXPECT_EQ(block, nullptr);
  }
}

TEST(Malloc, SizesThatOverflowWithTheirAlignment) {
  constexpr usize kMost = PTRDIFF_MAX;
  constexpr usize kHighest = usize{1} << 63;
  for (usize alignment : {usize{32}, usize{1} << 23, usize{1} << 62, kHighest}) {
    EXPECT_EQ(error_of([&] { EXPECT_EQ(coffer_aligned_alloc(alignment, kMost), nullptr); }), ENOMEM);
    EXPECT_EQ(error_of([&] { EXPECT_EQ(coffer_memalign(alignment, kMost), nullptr); }), ENOMEM);
  }
  EXPECT_EQ(error_of([&] { EXPECT_EQ(coffer_aligned_alloc(kHighest, 1), nullptr); }), ENOMEM);
  EXPECT_EQ(error_of([&] { EXPECT_EQ(coffer_pvalloc(kMost), nullptr); }), ENOMEM);
}

TEST(Malloc, CallocMultipliesWithCare) {
  EXPECT_EQ(error_of([] { EXPECT_EQ(coffer_calloc(usize{1} << 32, usize{1} << 32), nullptr); }), ENOMEM);
  EXPECT_EQ(error_of([] { EXPECT_EQ(coffer_calloc(SIZE_MAX / 2, 3), nullptr); }), ENOMEM);
  void* none = coffer_calloc(0, SIZE_MAX);
  EXPECT_NE(none, nullptr);
  coffer_free(none);
}

TEST(Malloc, CallocIsZeroWhereABlockWas) {
  for (usize size : {usize{1}, usize{64}, usize{1000}, usize{50'000}}) {
    for (int round = 0; round < 50; ++round) {
      auto* block = static_cast<unsigned char*>(coffer_calloc(size, 1));
      ASSERT_NE(block, nullptr);
      for (usize i = 0; i < size; ++i) ASSERT_EQ(block[i], 0) << size << ' ' << i;
      std::memset(block, 0xff, size);
      coffer_free(block);
    }
  }
}

TEST(Malloc, FreeKeepsErrno) {
  for (usize size : {usize{1}, usize{5000}, usize{100'000}, usize{30'000'000}}) {
    void* block = coffer_malloc(size);
    ASSERT_NE(block, nullptr);
    std::memset(block, 1, size);
    errno = 12345;
    coffer_free(block);
    EXPECT_EQ(errno, 12345);
  }
  coffer_free(nullptr);
  EXPECT_EQ(errno, 12345);
}

TEST(Malloc, ReallocOfNothingAndToNothing) {
  void* block = coffer_realloc(nullptr, 100);
  ASSERT_NE(block, nullptr);
  errno = 12345;
  EXPECT_EQ(coffer_realloc(block, 0), nullptr);
  EXPECT_EQ(errno, 12345);
  block = coffer_realloc(nullptr, 0);
  EXPECT_NE(block, nullptr);
  coffer_free(block);
}

TEST(Malloc, ReallocKeepsContentAndAFailedOneTheBlock) {
  auto* block = static_cast<unsigned char*>(coffer_malloc(10));
  ASSERT_NE(block, nullptr);
  for (unsigned char i = 0; i < 10; ++i) block[i] = i;
  for (usize size : {usize{100}, usize{40'000}, usize{3'000'000}, usize{200}, usize{10}}) {
    block = static_cast<unsigned char*>(coffer_realloc(block, size));
    ASSERT_NE(block, nullptr);
    for (unsigned char i = 0; i < 10; ++i) ASSERT_EQ(block[i], i);
    EXPECT_EQ(error_of([&] { EXPECT_EQ(coffer_realloc(block, kTooMuch), nullptr); }), ENOMEM);
    EXPECT_EQ(error_of([&] { EXPECT_EQ(coffer_realloc(block, PTRDIFF_MAX), nullptr); }), ENOMEM);
    for (unsigned char i = 0; i < 10; ++i) ASSERT_EQ(block[i], i);
  }
  coffer_free(block);
}

TEST(Malloc, AlignmentsThatAreNone) {
  for (usize alignment : {usize{0}, usize{3}, usize{24}, usize{4097}, SIZE_MAX}) {
    EXPECT_EQ(error_of([&] { EXPECT_EQ(coffer_aligned_alloc(alignment, 64), nullptr); }), EINVAL) << alignment;
  }
  void* result = &result;
  errno = 12345;
  for (usize alignment : {usize{0}, usize{1}, usize{2}, usize{4}, usize{12}, usize{24}, SIZE_MAX}) {
    EXPECT_EQ(coffer_posix_memalign(&result, alignment, 64), EINVAL) << alignment;
  }
  EXPECT_EQ(errno, 12345);
  EXPECT_EQ(error_of([&] { EXPECT_EQ(coffer_posix_memalign(&result, 64, kTooMuch), ENOMEM); }), ENOMEM);
  EXPECT_EQ(error_of([&] { EXPECT_EQ(coffer_posix_memalign(&result, usize{1} << 63, 1), ENOMEM); }), ENOMEM);
  EXPECT_EQ(result, &result);
  EXPECT_EQ(error_of([&] { EXPECT_EQ(coffer_memalign((usize{1} << 63) + 1, 1), nullptr); }), EINVAL);
}

TEST(Malloc, AlignmentsThatAre) {
  for (usize size : {usize{0}, usize{1}, usize{100}, usize{5000}, usize{100'000}}) {
    for (u32 order = 0; order <= 24; ++order) {
      const usize alignment = usize{1} << order;
      void* blocks[3] = {coffer_aligned_alloc(alignment, size), coffer_memalign(alignment, size), nullptr};
      ASSERT_EQ(coffer_posix_memalign(&blocks[2], alignment < 8 ? 8 : alignment, size), 0);
      for (void* block : blocks) {
        ASSERT_NE(block, nullptr);
        EXPECT_TRUE(aligned(block, alignment));
        std::memset(block, 1, size);
        EXPECT_GE(coffer_malloc_usable_size(block), size);
        coffer_free_aligned_sized(block, alignment, size);
      }
    }
  }
}

TEST(Malloc, MemalignRoundsUp) {
  for (usize alignment : {usize{0}, usize{1}, usize{17}, usize{33}, usize{100}, usize{5000}}) {
    usize rounded = 1;
    while (rounded < alignment) rounded *= 2;
    void* block = coffer_memalign(alignment, 10);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(aligned(block, rounded)) << alignment;
    coffer_free(block);
  }
}

TEST(Malloc, PagesForTheOldFunctions) {
  const auto page = static_cast<usize>(sysconf(_SC_PAGESIZE));
  for (usize size : {usize{0}, usize{1}, page, page + 1}) {
    void* block = coffer_valloc(size);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(aligned(block, page));
    coffer_free(block);
    block = coffer_pvalloc(size);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(aligned(block, page));
    const usize pages = size == 0 ? page : (size + page - 1) / page * page;
    EXPECT_GE(coffer_malloc_usable_size(block), pages);
    std::memset(block, 1, pages);
    coffer_free(block);
  }
}

TEST(Malloc, SizedFreesTakeRightSizesAndNull) {
  coffer_free_sized(nullptr, 100);
  coffer_free_aligned_sized(nullptr, 64, 100);
  EXPECT_EQ(coffer_malloc_usable_size(nullptr), 0u);
  for (usize size : {usize{0}, usize{1}, usize{100}, usize{100'000}}) {
    coffer_free_sized(coffer_malloc(size), size);
    coffer_free_sized(coffer_calloc(size, 1), size);
  }
}

TEST(MallocDeathTest, SizedFreeOfAnotherSize) {
  void* block = coffer_malloc(100);
  EXPECT_DEATH(coffer_free_sized(block, 100'000), "coffer: ");
  EXPECT_DEATH(coffer_free_aligned_sized(block, 16, SIZE_MAX), "coffer: ");
  coffer_free(block);
}

}  // namespace
}  // namespace coffer
