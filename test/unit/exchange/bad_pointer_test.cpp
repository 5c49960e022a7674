// SPDX-License-Identifier: MIT
// What free, realloc and malloc_usable_size say to pointers that are not blocks: one line, then the end.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "heaps.hpp"

namespace coffer {
namespace {

using namespace test;

std::string line(const char* call, const void* pointer, const char* what, usize size_class = 0) {
  char text[256];
  if (size_class == 0) {
    std::snprintf(text, sizeof text, "coffer: %s of %p: %s\n", call, pointer, what);
  } else {
    std::snprintf(text, sizeof text, "coffer: %s of %p: %s (size class %zu)\n", call, pointer, what, size_class);
  }
  return text;
}

void expect_end(const std::function<void()>& crime, const std::string& message) {
  const Outcome outcome = outcome_of(crime);
  EXPECT_TRUE(outcome.aborted()) << message;
  EXPECT_EQ(outcome.errors, message);
}

// All three calls refuse it, in the same words.
void expect_refused(void* pointer, const char* what, usize size_class = 0) {
  expect_end([&] { give(pointer); }, line("free", pointer, what, size_class));
  expect_end([&] { Allocator::reallocate(pointer, 64); }, line("realloc", pointer, what, size_class));
  expect_end([&] { Allocator::usable_size(pointer); }, line("malloc_usable_size", pointer, what, size_class));
}

void* at(void* block, i64 offset) { return static_cast<char*>(block) + offset; }

constexpr const char* kForeign = "not a block of this allocator";
constexpr const char* kNotAStart = "not the start of a block";
constexpr const char* kAlreadyFree = "already free";
constexpr const char* kFreeSpan = "in a span that is free";

FRESH_TEST(BadPointer, BeforeTheFirstAllocation) {
  int local = 0;
  expect_refused(&local, kForeign);
}

FRESH_TEST(BadPointer, OfMemoryThatIsNotOurs) {
  start_heaps();
  take();
  int local = 0;
  static int s_static = 0;
  expect_refused(&local, kForeign);
  expect_refused(&s_static, kForeign);
  expect_refused(reinterpret_cast<void*>(16), kForeign);
  expect_refused(reinterpret_cast<void*>(~uptr{0} - 15), kForeign);
  const Arena& arena = g_arenas.arenas[0];
  expect_refused(reinterpret_cast<void*>(arena.base - 16), kForeign);
  expect_refused(reinterpret_cast<void*>(arena.base + arena.frontier.load(relaxed)), kForeign);
  // In a chunk that nobody took, and in a slice that nobody used.
  expect_refused(reinterpret_cast<void*>(arena.base + 5 * kChunkBytes), kForeign);
  expect_refused(reinterpret_cast<void*>(arena.base + 9 * kSliceBytes), kForeign);
}

FRESH_TEST(BadPointer, InsideABlock) {
  start_heaps();
  void* block = take();
  expect_refused(at(block, 1), kNotAStart, kSize);
  expect_refused(at(block, 16), kNotAStart, kSize);
  expect_refused(at(block, kSize - 1), kNotAStart, kSize);
  void* wide = take(32 * 1024);
  expect_refused(at(wide, 16), kNotAStart, 32 * 1024);
  void* second = take(32 * 1024);  // in a later slice of the span
  expect_refused(at(second, 16), kNotAStart, 32 * 1024);
}

FRESH_TEST(BadPointer, InsideAnothersBlock) {
  start_heaps();
  take();
  void* block = nullptr;
  Worker other;
  other.run([&] { block = take(); });
  expect_refused(at(block, 16), kNotAStart, kSize);
}

// The tail of a span holds no block.
FRESH_TEST(BadPointer, BehindTheLastBlock) {
  start_heaps();
  constexpr usize kOdd = 48;
  void* block = take(kOdd);
  const Span* span = span_of(block);
  const u32 end = span->capacity.get() * kOdd;
  ASSERT_LT(end, kSliceBytes);
  expect_refused(at(block, end), kNotAStart, kOdd);
}

FRESH_TEST(BadPointer, FreedTwiceInARow) {
  start_heaps();
  const Blocks blocks = take_many(3);
  give(blocks[0]);
  give(blocks[1]);
  expect_refused(blocks[1], kAlreadyFree, kSize);
  // In a later slice: the other path.
  const Blocks wide = take_many(2, 32 * 1024);
  give(wide[1]);
  expect_refused(wide[1], kAlreadyFree, 32 * 1024);
}

FRESH_TEST(BadPointer, FreedTwiceInARowByAnother) {
  start_heaps();
  Blocks blocks;
  Worker other;
  other.run([&] { blocks = take_many(20); });
  give(blocks[0]);
  // In the open chain, and on the remote list.
  expect_end([&] { give(blocks[0]); }, line("free", blocks[0], kAlreadyFree, kSize));
  close_chains(t_heap);
  expect_end([&] { give(blocks[0]); }, line("free", blocks[0], kAlreadyFree, kSize));
  // More frees than the span has blocks.
  expect_end(
      [&] {
        for (u32 i = 0; i < 4 * kCapacity; ++i) give(blocks[1 + i % 2]);
      },
      line("free", blocks[1], kAlreadyFree, kSize));
}

FRESH_TEST(BadPointer, InASpanThatIsFree) {
  start_tight(24 * kSize);
  const Blocks blocks = take_many(kCapacity + 1);
  give_many(blocks, 0, kCapacity);
  ASSERT_EQ(span_of(blocks[3]), nullptr);
  expect_refused(blocks[3], kFreeSpan);
  expect_refused(at(blocks[3], 5), kFreeSpan);
}

FRESH_TEST(BadPointer, InLargeBlocks) {
  start_heaps();
  void* slices = take(100 * 1024);
  expect_refused(at(slices, 16), kNotAStart, 128 * 1024);
  expect_refused(at(slices, 2 * kSliceBytes), kNotAStart, 128 * 1024);
  void* chunks = take(5 * kChunkBytes);
  expect_refused(at(chunks, 16), kNotAStart, 5 * kChunkBytes);
  expect_refused(at(chunks, kSliceBytes), kNotAStart, 5 * kChunkBytes);
  expect_refused(at(chunks, 3 * kChunkBytes), kNotAStart, 5 * kChunkBytes);
  give(slices);
  give(chunks);
  expect_refused(slices, kFreeSpan);
  expect_refused(at(slices, 2 * kSliceBytes), kFreeSpan);
  expect_refused(chunks, kFreeSpan);
}

}  // namespace
}  // namespace coffer
