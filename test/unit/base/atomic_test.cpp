// SPDX-License-Identifier: MIT
#include "base/atomic.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace coffer {
namespace {

TEST(Atomic, OperationsReturnWhatWasThere) {
  Atomic<u64> cell(5);
  EXPECT_EQ(cell.load(relaxed), 5u);
  EXPECT_EQ(cell.exchange(6, acq_rel), 5u);
  EXPECT_EQ(cell.fetch_or(8, relaxed), 6u);
  EXPECT_EQ(cell.fetch_and(12, relaxed), 14u);
  EXPECT_EQ(cell.fetch_add(1, relaxed), 12u);
  EXPECT_EQ(cell.fetch_sub(3, relaxed), 13u);
  EXPECT_EQ(cell.load(relaxed), 10u);
}

TEST(Atomic, CompareExchangeTellsWhatItFound) {
  Atomic<u32> cell(1);
  u32 expected = 2;
  EXPECT_FALSE(cell.compare_exchange(expected, 3, acq_rel, relaxed));
  EXPECT_EQ(expected, 1u);
  // It may fail for no reason, but not for ever.
  while (!cell.compare_exchange(expected, 3, acq_rel, relaxed)) EXPECT_EQ(expected, 1u);
  EXPECT_EQ(cell.load(relaxed), 3u);
}

TEST(Atomic, ZeroBytesAreAState) {
  alignas(Atomic<u64>) unsigned char memory[sizeof(Atomic<u64>)];
  std::memset(memory, 0, sizeof memory);
  EXPECT_EQ(reinterpret_cast<Atomic<u64>*>(memory)->load(relaxed), 0u);
  EXPECT_EQ(sizeof(Atomic<u32>), 4u);
  EXPECT_EQ(sizeof(Owned<u32>), 4u);
  EXPECT_EQ(sizeof(Owned<void*>), 8u);
}

TEST(Atomic, NoUpdateIsLost) {
  constexpr u64 kThreads = 4, kCount = 20'000;
  Atomic<u64> sum, swapped;
  const auto work = [&] {
    for (u64 i = 0; i < kCount; ++i) {
      sum.fetch_add(1, relaxed);
      u64 seen = swapped.load(relaxed);
      while (!swapped.compare_exchange(seen, seen + 2, acq_rel, relaxed)) {
      }
    }
  };
  std::vector<std::thread> threads;
  for (u64 i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum.load(relaxed), kThreads * kCount);
  EXPECT_EQ(swapped.load(relaxed), 2 * kThreads * kCount);
}

template <class T>
void expect_countdown() {
  Owned<T> cell(3);
  EXPECT_FALSE(cell.decrement());
  EXPECT_FALSE(cell.decrement());
  EXPECT_TRUE(cell.decrement());
  EXPECT_EQ(cell.get(), T{0});
  cell.set(1);
  EXPECT_TRUE(cell.decrement());
  // Below zero it goes on, and that is no zero.
  EXPECT_FALSE(cell.decrement());
  EXPECT_EQ(cell.get(), static_cast<T>(-1));
}

TEST(Owned, DecrementTellsZeroOnce) {
  expect_countdown<u32>();  // the size that has an instruction of its own
  expect_countdown<i32>();
  expect_countdown<u64>();
  expect_countdown<u16>();
}

TEST(Owned, DecrementTouchesNoNeighbour) {
  struct {
    u32 before = 7;
    Owned<u32> cell{0};
    u32 after = 7;
  } row;
  EXPECT_FALSE(row.cell.decrement());
  EXPECT_EQ(row.before, 7u);
  EXPECT_EQ(row.after, 7u);
  EXPECT_EQ(row.cell.get(), ~u32{0});
}

// RISC-V's exchanges of less than a word, on the word around.
template <class T>
void exchange_in_word() {
  constexpr u32 kMany = sizeof(u64) / sizeof(T);
  alignas(8) T cells[kMany];
  for (u32 i = 0; i < kMany; ++i) {
    for (T& cell : cells) cell = static_cast<T>(0x5a5a);
    ByteInWord<T> cell(&cells[i]);
    T expected = 1;
    EXPECT_FALSE(cell.compare_exchange(expected, 2, relaxed, relaxed));
    EXPECT_EQ(expected, static_cast<T>(0x5a5a));
    while (!cell.compare_exchange(expected, static_cast<T>(0xf1e2), relaxed, relaxed)) {
    }
    EXPECT_EQ(cell.update(relaxed, [](T before) { return static_cast<T>(before + 1); }), static_cast<T>(0xf1e2));
    for (u32 j = 0; j < kMany; ++j) EXPECT_EQ(cells[j], static_cast<T>(j == i ? 0xf1e3 : 0x5a5a)) << j;
  }
}

TEST(ByteInWord, OneByte) { exchange_in_word<u8>(); }
TEST(ByteInWord, TwoBytes) { exchange_in_word<u16>(); }

}  // namespace
}  // namespace coffer
