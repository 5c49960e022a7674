// SPDX-License-Identifier: MIT
// Alignment of everything that can be aligned, and the page-aligned relics.
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "harness.hpp"
#include "support/glibc_malloc.hpp"

using namespace conformance;

namespace {

bool aligned(const void* block, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

void* allocate(int kind, std::size_t alignment, std::size_t size) {
  if (kind == 0) return aligned_alloc(alignment, size);
  if (kind == 1) return memalign(alignment, size);
  void* block = nullptr;
  const int status = posix_memalign(&block, alignment, size);
  CHECK(status == 0, "posix_memalign(%zu, %zu) = %d", alignment, size, status);
  return block;
}

// Four blocks at once, so that the second and later ones of a span are seen too; then all are grown, since a block
// that came aligned must be as good for realloc as any other.
void check_one(int kind, std::size_t alignment, std::size_t size, bool grow) {
  constexpr int kCount = 4;
  unsigned char* blocks[kCount];
  for (int i = 0; i < kCount; ++i) {
    blocks[i] = static_cast<unsigned char*>(allocate(kind, alignment, size));
    CHECK(blocks[i] != nullptr, "kind %d, alignment %zu, size %zu", kind, alignment, size);
    CHECK(aligned(blocks[i], alignment), "kind %d, alignment %zu, size %zu: %p", kind, alignment, size,
          static_cast<void*>(blocks[i]));
    CHECK(malloc_usable_size(blocks[i]) >= size, "kind %d, alignment %zu, size %zu", kind, alignment, size);
    fill(blocks[i], size, alignment + static_cast<std::size_t>(i));
  }
  for (int i = 0; i < kCount; ++i) {
    const std::size_t seed = alignment + static_cast<std::size_t>(i);
    CHECK(holds_pattern(blocks[i], size, seed), "kind %d, alignment %zu, size %zu", kind, alignment, size);
    if (grow) {
      blocks[i] = static_cast<unsigned char*>(realloc(blocks[i], size * 2 + 40));
      CHECK(blocks[i] != nullptr && holds_pattern(blocks[i], size, seed));
    }
    free(blocks[i]);
  }
}

}  // namespace

CASE(alignments_to_8_mib) {
  const std::size_t sizes[] = {0,     1,     8,     16,     24,      48,      64,      65,      100,    129,
                               256,   1000,  1024,  4000,   4096,    5000,    8192,    16384,   20000,  32768,
                               32769, 65536, 99999, 262144, 1000000, 1048576, 1048577, 2097152, 3000000};
  for (int kind = 0; kind < 3; ++kind) {
    for (std::size_t alignment = 8; alignment <= 8 << 20; alignment *= 2) {
      for (const std::size_t size : sizes) check_one(kind, alignment, size, size < 100'000);
    }
  }
  check_metadata();
}

CASE(alignments_beyond_8_mib) {
  for (int kind = 0; kind < 3; ++kind) {
    for (std::size_t alignment = 16 << 20; alignment <= 1 << 30; alignment *= 2) {
      for (const std::size_t size : {1, 100, 5000, 100'000, 3'000'000}) {
        auto* block = static_cast<unsigned char*>(allocate(kind, alignment, size));
        CHECK(block != nullptr && aligned(block, alignment), "alignment %zu, size %zu", alignment, size);
        CHECK(malloc_usable_size(block) >= size);
        fill(block, size, alignment);
        CHECK(holds_pattern(block, size, alignment));
        free(block);
      }
    }
  }
  void* large = aligned_alloc(std::size_t{1} << 30, std::size_t{1} << 30);
  CHECK(large != nullptr && aligned(large, std::size_t{1} << 30));
  CHECK(malloc_usable_size(large) >= std::size_t{1} << 30);
  free(large);
  check_metadata();
}

// Every alignment from 8 to 4096 with every size to 2,000: where size classes and alignments meet.
CASE(alignments_of_small_sizes) {
  for (std::size_t alignment = 8; alignment <= 4096; alignment *= 2) {
    for (std::size_t size = 0; size <= 2000; ++size) {
      auto* first = static_cast<unsigned char*>(hide(aligned_alloc(alignment, size)));
      auto* second = static_cast<unsigned char*>(hide(memalign(alignment, size)));
      CHECK(first != nullptr && second != nullptr && first != second);
      CHECK(aligned(first, alignment) && aligned(second, alignment), "alignment %zu, size %zu", alignment, size);
      const std::size_t usable = malloc_usable_size(first);
      CHECK(usable >= size && malloc_usable_size(second) >= size, "alignment %zu, size %zu", alignment, size);
      memset(first, 1, usable);
      memset(second, 2, malloc_usable_size(second));
      for (std::size_t i = 0; i < usable; ++i) CHECK(first[i] == 1, "alignment %zu, size %zu", alignment, size);
      free(first);
      free(second);
    }
  }
  check_metadata();
}

CASE(every_block_is_aligned_to_16) {
  for (std::size_t size = 0; size <= 70'000; ++size) {
    void* block = malloc(hide(size));
    void* zeroed = calloc(1, hide(size));
    CHECK(aligned(block, 16) && aligned(zeroed, 16), "size %zu", size);
    block = realloc(block, size + 1);
    CHECK(aligned(block, 16), "realloc to %zu", size + 1);
    free(block);
    free(zeroed);
  }
  static void* blocks[3000];
  for (std::size_t size = 1; size <= 1100; size += 7) {
    for (void*& block : blocks) {
      block = malloc(size);
      CHECK(aligned(block, 16), "size %zu", size);
    }
    for (void* block : blocks) free(block);
  }
}

CASE(page_aligned_relics) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, page - 1, page, page + 1, 10 * page, 700 * page}) {
    void* block = valloc(size);
    CHECK(block != nullptr && aligned(block, page) && malloc_usable_size(block) >= size, "valloc(%zu)", size);
    memset(block, 1, size);
    free(block);
    block = pvalloc(size);
    const std::size_t rounded = (size + page - 1) / page * page;
    CHECK(block != nullptr && aligned(block, page), "pvalloc(%zu)", size);
    CHECK(malloc_usable_size(block) >= rounded, "pvalloc(%zu): %zu", size, malloc_usable_size(block));
    memset(block, 1, rounded);
    free(block);
  }
}
