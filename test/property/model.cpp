// SPDX-License-Identifier: MIT
#include "property/model.hpp"

#include <coffer/coffer.h>
#include <errno.h>
#include <unistd.h>

#include "span/span.hpp"
#include "support/check.hpp"
#include "support/pattern.hpp"
#include "support/sizes.hpp"

namespace coffer::test {

namespace {

constexpr int kErrnoMark = 4242;  // no function may leave another value where it must not change errno

// The compiler knows that these calls are in vain and warns.
std::size_t out_of_range(std::size_t below_the_top) {
  volatile std::size_t size = ~std::size_t{0} - below_the_top;
  return size;
}

void expect_refusal(const void* got, int reason, const char* what) {
  REQUIRE(got == nullptr, "%s gave %p", what, got);
  REQUIRE(errno == reason, "%s failed with errno %d, not %d", what, errno, reason);
  errno = 0;
}

void check_refusals() {
  const std::size_t half = out_of_range(0) / 2;  // PTRDIFF_MAX
  errno = 0;
  expect_refusal(coffer_malloc(out_of_range(0)), ENOMEM, "malloc(SIZE_MAX)");
  expect_refusal(coffer_malloc(half + 1), ENOMEM, "malloc(PTRDIFF_MAX + 1)");
  expect_refusal(coffer_malloc(half), ENOMEM, "malloc(PTRDIFF_MAX)");
  expect_refusal(coffer_calloc(half, 3), ENOMEM, "calloc(PTRDIFF_MAX, 3)");
  expect_refusal(coffer_calloc(std::size_t{1} << 32, std::size_t{1} << 32), ENOMEM, "calloc(2^32, 2^32)");
  expect_refusal(coffer_realloc(nullptr, out_of_range(4096)), ENOMEM, "realloc(NULL, SIZE_MAX - 4096)");
  expect_refusal(coffer_aligned_alloc(64, out_of_range(32)), ENOMEM, "aligned_alloc(64, SIZE_MAX - 32)");
  expect_refusal(coffer_aligned_alloc(half + 1, 64), ENOMEM, "aligned_alloc(2^63, 64)");
  expect_refusal(coffer_aligned_alloc(48, 64), EINVAL, "aligned_alloc(48, 64)");
  int mark = 0;
  void* result = &mark;
  REQUIRE(coffer_posix_memalign(&result, 4, 64) == EINVAL, "posix_memalign took alignment 4");
  REQUIRE(coffer_posix_memalign(&result, 24, 64) == EINVAL, "posix_memalign took alignment 24");
  REQUIRE(coffer_posix_memalign(&result, 64, half + 1) == ENOMEM, "posix_memalign took a size over PTRDIFF_MAX");
  REQUIRE(result == &mark, "a failed posix_memalign wrote its result");
}

}  // namespace

void Model::verify(const Block& block, std::size_t kept, const char* when) const {
  const std::size_t damage = find_damage(block.at, block.filled, kept, block.seed);
  REQUIRE(damage == kPatternGood, "block %p of %zu bytes is damaged at offset %zu, found %s", block.at, block.filled,
          damage, when);
}

// By the record: of 65,600 usable bytes there are blocks of a class, and large ones behind a long colour.
bool Model::is_large(const void* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return first_record(slice_record(arena_of(address), address))->use.load(std::memory_order_relaxed) == SliceUse::large;
}

std::size_t Model::counted(const Block& block) {
  return block.usable + (block.large ? reinterpret_cast<std::uintptr_t>(block.at) % kSliceBytes : 0);
}

void Model::enter(Block& block, void* at, std::size_t size, std::size_t alignment) {
  const std::size_t usable = coffer_malloc_usable_size(at);
  ranges_.enter(at, size, usable, alignment);
  block = {static_cast<unsigned char*>(at),    size,        size, usable, alignment,
           next_seed_++ * 0x9e3779b97f4a7c15u, is_large(at)};
  fill_pattern(at, size, block.seed);
  usable_ += counted(block);
  if (block.large) usable_large_ += counted(block);
}

void Model::leave(const Block& block) {
  ranges_.leave(block.at);
  usable_ -= counted(block);
  if (block.large) usable_large_ -= counted(block);
}

void Model::allocate(Block& block, const Operation& operation) {
  const std::size_t size = operation.size;
  const std::size_t alignment = std::size_t{1} << operation.alignment_log2;
  static const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* at = nullptr;
  std::size_t promised = 0;
  errno = 0;
  switch (operation.kind) {
    case Kind::calloc: {
      // Split the size into the two factors that calloc multiplies.
      const std::size_t count = size % 3 == 0 ? 3 : 1;
      at = coffer_calloc(count, size / count);
      break;
    }
    case Kind::aligned_alloc:
      at = coffer_aligned_alloc(promised = alignment, size);
      break;
    case Kind::posix_memalign: {
      const int error = coffer_posix_memalign(&at, promised = alignment, size);
      REQUIRE(error == 0, "posix_memalign(%zu, %zu) = %d", alignment, size, error);
      break;
    }
    case Kind::memalign:
      at = coffer_memalign(promised = alignment, size);
      break;
    case Kind::valloc:
      at = coffer_valloc(size);
      break;
    case Kind::pvalloc:
      at = coffer_pvalloc(size);
      break;
    case Kind::realloc_null:
      at = coffer_realloc(nullptr, size);
      break;
    default:
      at = coffer_malloc(size);
      break;
  }
  REQUIRE(at != nullptr, "%s failed, errno %d", to_text(operation).c_str(), errno);
  if (operation.kind == Kind::calloc) {
    const std::size_t found = find_nonzero(at, size);
    REQUIRE(found == kPatternGood, "calloc: block %p of %zu bytes is not zero at offset %zu", at, size, found);
  }
  enter(block, at, size, promised);
  if (operation.kind == Kind::valloc || operation.kind == Kind::pvalloc) {
    REQUIRE(reinterpret_cast<std::uintptr_t>(at) % page == 0, "valloc: block %p is not page aligned", at);
    REQUIRE(operation.kind == Kind::valloc || block.usable >= (size + page - 1) / page * page,
            "pvalloc(%zu): only %zu usable bytes", size, block.usable);
    block.alignment = page;
  }
}

void Model::reallocate(Block& block, std::size_t size) {
  const Block old = block;
  leave(old);
  void* const at = coffer_realloc(old.at, size);
  REQUIRE(at != nullptr, "realloc(%p of %zu bytes, %zu) failed, errno %d", old.at, old.filled, size, errno);
  Block moved = old;
  moved.at = static_cast<unsigned char*>(at);
  verify(moved, size < old.filled ? size : old.filled, "after realloc");
  enter(block, at, size, 0);
}

void Model::release(Block& block, Kind kind) {
  verify(block, block.filled, "before free");
  leave(block);
  errno = kErrnoMark;
  if (kind == Kind::free) {
    coffer_free(block.at);
  } else if (block.alignment == 0) {
    coffer_free_sized(block.at, block.requested);
  } else {
    coffer_free_aligned_sized(block.at, block.alignment, block.requested);
  }
  REQUIRE(errno == kErrnoMark, "free of a block of %zu bytes set errno to %d", block.usable, errno);
  block = {};
}

void Model::check_stats() const {
  struct coffer_stats stats = {};
  REQUIRE(coffer_stats(&stats, sizeof stats) == 0, "coffer_stats failed");
  REQUIRE(stats.live == usable_, "stats: live %zu, but the blocks held have %zu usable bytes", stats.live, usable_);
  REQUIRE(stats.large == usable_large_, "stats: large %zu, but the large blocks held have %zu usable bytes",
          stats.large, usable_large_);
  REQUIRE(stats.held >= stats.live, "stats: held %zu below live %zu", stats.held, stats.live);
}

void Model::apply(const Operation& operation) {
  Block& block = blocks_[operation.slot];
  if (operation.kind <= kLastAllocating) {
    if (block.at == nullptr) allocate(block, operation);
    return;
  }
  if (operation.kind <= kLastOfSlot && block.at == nullptr) return;
  switch (operation.kind) {
    case Kind::realloc:
      reallocate(block, operation.size);
      break;
    case Kind::verify:
      verify(block, block.filled, "when looked at");
      break;
    case Kind::use_all:
      verify(block, block.filled, "when looked at");
      REQUIRE(coffer_malloc_usable_size(block.at) == block.usable, "the usable size of block %p changed", block.at);
      block.filled = block.usable;
      fill_pattern(block.at, block.filled, block.seed);
      break;
    case Kind::free_null:
      coffer_free(nullptr);
      break;
    case Kind::refused:
      check_refusals();
      break;
    case Kind::trim:
      coffer_malloc_trim(0);
      break;
    case Kind::stats:
      check_stats();
      break;
    case Kind::check: {
      const std::size_t violations = coffer_check();
      REQUIRE(violations == 0, "coffer_check: %zu violations", violations);
      break;
    }
    default:
      release(block, operation.kind);
      break;
  }
}

void Model::finish() {
  for (Block& block : blocks_) {
    if (block.at != nullptr) release(block, Kind::free);
  }
  check_stats();
  REQUIRE(coffer_check() == 0, "coffer_check finds violations after everything was freed");
  coffer_malloc_trim(0);
  REQUIRE(coffer_check() == 0, "coffer_check finds violations after the last trim");
}

}  // namespace coffer::test
