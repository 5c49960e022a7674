// SPDX-License-Identifier: MIT
// Sizes and content: what a block holds, how much of it may be written, what calloc and realloc promise.

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "harness.hpp"
#include "support/glibc_malloc.hpp"

using namespace conformance;

namespace {

constexpr std::size_t kMega = 1 << 20;
constexpr std::size_t kLargeSamples[] = {70'001,         99'999,     131'072,       200'000,        262'144,
                                         524'288,        786'433,    kMega - 1,     kMega,          kMega + 1,
                                         2 * kMega - 1,  2 * kMega,  2 * kMega + 1, 3'000'000,      4 * kMega,
                                         5 * kMega + 77, 33 * kMega, 100 * kMega,   128 * kMega + 1};

}  // namespace

CASE(zero_size_blocks_are_unique) {
  static void* blocks[10'000];
  for (int i = 0; i < 10'000; ++i) {
    switch (i % 4) {
      case 0:
        blocks[i] = malloc(hide(std::size_t{0}));
        break;
      case 1:
        blocks[i] = calloc(hide(std::size_t{0}), 8);
        break;
      case 2:
        blocks[i] = realloc(nullptr, hide(std::size_t{0}));
        break;
      default:
        blocks[i] = aligned_alloc(64, hide(std::size_t{0}));
        break;
    }
    CHECK(blocks[i] != nullptr);
    // A unique block: what another one wrote into itself must still be there at the end.
    if (malloc_usable_size(blocks[i]) >= sizeof(int)) memcpy(blocks[i], &i, sizeof i);
  }
  for (int i = 0; i < 10'000; ++i) {
    if (malloc_usable_size(blocks[i]) >= sizeof(int)) CHECK(memcmp(blocks[i], &i, sizeof i) == 0);
    free(blocks[i]);
  }
}

// Two neighbours of each size, every usable byte of both written; each must keep what it holds.
CASE(all_usable_bytes_are_writable) {
  const auto check_pair = [](std::size_t size) {
    void* first = malloc(hide(size));
    void* second = malloc(hide(size));
    CHECK(first != nullptr && second != nullptr, "size %zu", size);
    const std::size_t usable = malloc_usable_size(first);
    const std::size_t other = malloc_usable_size(second);
    CHECK(usable >= size && other >= size, "size %zu, usable %zu and %zu", size, usable, other);
    fill(first, usable, size);
    fill(second, other, size + 1);
    CHECK(holds_pattern(first, usable, size), "size %zu", size);
    CHECK(holds_pattern(second, other, size + 1), "size %zu", size);
    free(first);
    free(second);
  };
  for (std::size_t size = 0; size <= 70'000; ++size) check_pair(size);
  for (const std::size_t size : kLargeSamples) check_pair(size);
  check_metadata();
}

CASE(usable_bytes_of_very_large_blocks) {
  for (const std::size_t size : {200 * kMega + 5, 512 * kMega, 1024 * kMega}) {
    auto* block = static_cast<unsigned char*>(malloc(size));
    CHECK(block != nullptr, "size %zu", size);
    const std::size_t usable = malloc_usable_size(block);
    CHECK(usable >= size);
    for (std::size_t place = 0; place < usable; place += 64 * 1024)
      block[place] = static_cast<unsigned char>(place >> 16);
    block[usable - 1] = 77;
    for (std::size_t place = 0; place + 1 < usable; place += 64 * 1024) {
      CHECK(block[place] == static_cast<unsigned char>(place >> 16));
    }
    free(block);
  }
  CHECK(malloc_usable_size(nullptr) == 0);
}

CASE(usable_size_is_stable) {
  for (std::size_t size = 0; size < 40'000; size += 37) {
    void* block = malloc(size);
    const std::size_t usable = malloc_usable_size(block);
    // A program may use all of it and ask realloc for exactly that: nothing need move, nothing may be lost.
    fill(block, usable, size);
    if (usable != 0) block = realloc(block, usable);  // to size 0 it would be freed
    CHECK(block != nullptr && malloc_usable_size(block) >= usable && holds_pattern(block, usable, size));
    free(block);
  }
}

CASE(calloc_is_zero_after_dirty_reuse) {
  for (std::size_t size = 1; size <= 70'000; ++size) {
    void* dirty[3];
    for (void*& block : dirty) {
      block = malloc(hide(size));
      memset(block, 0xff, malloc_usable_size(block));
    }
    for (void* block : dirty) free(block);
    for (void*& block : dirty) {
      block = calloc(1, hide(size));
      CHECK(all_zero(block, size), "size %zu", size);
      memset(block, 0xff, size);
    }
    for (void* block : dirty) free(block);
  }
  for (const std::size_t size : kLargeSamples) {
    for (int round = 0; round < 3; ++round) {
      void* block = malloc(size);
      memset(block, 0xff, malloc_usable_size(block));
      free(block);
      block = calloc(size, 1);
      CHECK(all_zero(block, size), "size %zu", size);
      memset(block, 0xff, size);
      free(block);
    }
  }
}

// Many blocks of a size at once, since a span's first page and its later pages come to calloc by different ways; with
// a trim between, which gives pages back and must not leave others' content behind.
CASE(calloc_is_zero_in_batches_and_after_trim) {
  static void* blocks[4000];
  for (const std::size_t size : {16, 40, 64, 200, 1000, 3000, 4096, 5000, 9000, 30000, 50000}) {
    const std::size_t count = 40'000'000 / size < 4000 ? 40'000'000 / size : 4000;
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < count; ++i) {
        blocks[i] = malloc(size);
        memset(blocks[i], 0xa5, malloc_usable_size(blocks[i]));
      }
      // Every second one stays, so that spans are partly free when memory is given back.
      for (std::size_t i = 0; i < count; i += 2) free(blocks[i]);
      if (round == 1) malloc_trim(0);
      for (std::size_t i = 0; i < count; i += 2) {
        blocks[i] = calloc(1, size);
        CHECK(all_zero(blocks[i], size), "size %zu, block %zu", size, i);
        memset(blocks[i], 0x5a, size);
      }
      for (std::size_t i = 1; i < count; i += 2) {
        CHECK(static_cast<unsigned char*>(blocks[i])[size - 1] == 0xa5, "size %zu, block %zu", size, i);
      }
      for (std::size_t i = 0; i < count; ++i) free(blocks[i]);
      if (round == 2) malloc_trim(0);
    }
  }
  check_metadata();
}

CASE(realloc_of_null_and_to_zero) {
  void* block = realloc(nullptr, 100);
  CHECK(block != nullptr && malloc_usable_size(block) >= 100);
  free(block);
  // To zero: glibc frees and returns NULL; a unique block would do as well. In both cases nothing may leak.
  const std::size_t before = resident_kib();
  for (int i = 0; i < 200'000; ++i) {
    block = malloc(10'000);
    CHECK(block != nullptr);
    *static_cast<volatile char*>(block) = 1;
    errno = 4242;
    void* empty = realloc(block, hide(std::size_t{0}));
    if (empty == nullptr) CHECK(errno == 4242, "realloc to 0 set errno %d", errno);
    free(empty);
  }
  CHECK(resident_kib() < before + 20'000, "from %zu to %zu KiB", before, resident_kib());
}

CASE(realloc_keeps_content_small) {
  for (std::size_t size = 1; size <= 40'000; size = size < 2100 ? size + 1 : size + 331) {
    for (const std::size_t other :
         {size / 2 + 1, size + 1, size + 17, size * 2, size * 9, size / 9 + 1, size + 50'000}) {
      void* block = malloc(size);
      fill(block, size, size);
      block = realloc(block, hide(other));
      CHECK(block != nullptr && malloc_usable_size(block) >= other);
      CHECK(holds_pattern(block, (size < other ? size : other) / 8 * 8, size), "%zu to %zu", size, other);
      fill(block, other, other);
      block = realloc(block, hide(size));
      CHECK(holds_pattern(block, (size < other ? size : other) / 8 * 8, other), "%zu to %zu", other, size);
      free(block);
    }
  }
  check_metadata();
}

// One block through all ranges: small, slot runs, whole chunks, and the range in which pages are moved rather than
// copied; other blocks lie between, so that growth in place is not always to be had.
CASE(realloc_keeps_content_large) {
  const std::size_t sizes[] = {24,          3000,        20'000,     33'000,     90'000,      300'000,     900'000,
                               1'500'000,   2'500'000,   7'000'000,  30'000'000, 100'000'000, 150'000'000, 310'000'000,
                               310'004'096, 120'000'000, 50'000'000, 9'000'000,  2'200'000,   1'000'000,   500'000,
                               100'000,     32'768,      10'000,     100,        20'000'000,  60'000,      105'000'000};
  void* between[64] = {};
  std::size_t count = 0;
  std::size_t held = 8;
  void* block = malloc(held);
  fill(block, held, 0);
  std::size_t seed = 0;
  for (const std::size_t size : sizes) {
    void* moved = realloc(block, size);
    CHECK(moved != nullptr && malloc_usable_size(moved) >= size, "%zu to %zu", held, size);
    CHECK(holds_pattern(moved, (held < size ? held : size) / 8 * 8, seed), "%zu to %zu", held, size);
    block = moved;
    held = size;
    fill(block, held, ++seed);
    const std::size_t beside = size < 4'000'000 ? size : 4'000'000;
    between[count] = malloc(beside);
    memset(between[count++], 0xee, beside);
  }
  CHECK(holds_pattern(block, held, seed));
  free(block);
  for (std::size_t i = 0; i < count; ++i) free(between[i]);
  check_metadata();
}

// The way a vector or a string buffer grows.
CASE(realloc_grows_step_by_step) {
  for (const std::size_t step : {1, 16, 100, 5000, 70'000, 1'000'000}) {
    std::size_t size = 1;
    auto* block = static_cast<unsigned char*>(malloc(size));
    block[0] = 0;
    for (int i = 1; i <= 300; ++i) {
      block = static_cast<unsigned char*>(realloc(block, size + step));
      CHECK(block != nullptr);
      size += step;
      block[size - 1] = static_cast<unsigned char>(i);
    }
    for (int i = 1; i <= 300; ++i) CHECK(block[static_cast<std::size_t>(i) * step] == static_cast<unsigned char>(i));
    free(block);
  }
  check_metadata();
}
