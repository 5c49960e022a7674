// SPDX-License-Identifier: MIT
// What may overtake what: the litmus tests of the memories that a world can have.
#include "trial/stores.hpp"

#include <gtest/gtest.h>

#include <set>

#include "trial/pulse.hpp"

namespace coffer::trial {

Pulse g_pulse;
void turn(u32) {}

namespace {

constexpr u64 kChoices = 64;

// The thread whose stores wait in `buffer` runs.
class Runs {
 public:
  Runs(Memory memory, StoreBuffer& buffer) { g_stores = {memory, &buffer}; }
  ~Runs() { g_stores = {}; }
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;
};

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kSeqCst = std::memory_order_seq_cst;

// What others can see, as 10 * y + x, of x = 1 and then y = 1, by this order.
std::set<u32> seen_of_message(Memory memory, std::memory_order order_of_y) {
  std::set<u32> seen;
  for (u64 choice = 0; choice < kChoices; ++choice) {
    u32 x = 0, y = 0;
    StoreBuffer buffer;
    const Runs runs(memory, buffer);
    write_value(x, 1u, kRelaxed);
    write_value(y, 1u, order_of_y);
    while (!buffer.empty()) {
      seen.insert(10 * y + x);
      buffer.send_some(memory, choice);
    }
    seen.insert(10 * y + x);
  }
  return seen;
}

TEST(Stores, OfAMessageTheFlagMayComeFirstOnArmOnly) {
  EXPECT_EQ(seen_of_message(Memory::as_x86, kRelaxed), (std::set<u32>{0, 1, 11}));
  EXPECT_EQ(seen_of_message(Memory::as_arm, kRelaxed), (std::set<u32>{0, 1, 10, 11}));
}

TEST(Stores, AReleaseCarriesWhatWasBefore) {
  EXPECT_EQ(seen_of_message(Memory::as_x86, kRelease), (std::set<u32>{0, 1, 11}));
  EXPECT_EQ(seen_of_message(Memory::as_arm, kRelease), (std::set<u32>{0, 1, 11}));
}

TEST(Stores, AreReadByTheirThreadAndNobodyElse) {
  for (const Memory memory : {Memory::as_x86, Memory::as_arm}) {
    u32 x = 0;
    StoreBuffer buffer;
    const Runs runs(memory, buffer);
    write_value(x, 1u, kRelaxed);
    write_value(x, 2u, kRelease);
    EXPECT_EQ(seen_value(x, kRelaxed), 2u);
    EXPECT_EQ(x, 0u) << "store buffering: two threads that do this both read 0 of each other";
    buffer.send_all();
    EXPECT_EQ(x, 2u);
    EXPECT_EQ(seen_value(x, kRelaxed), 2u);
  }
}

TEST(Stores, WaitNowhereWhereMemoryIsAtOnce) {
  u32 x = 0;
  write_value(x, 1u, kRelaxed);
  EXPECT_EQ(x, 1u);
}

TEST(Stores, OfOneCellKeepTheirOrder) {
  for (u64 choice = 0; choice < kChoices; ++choice) {
    u32 x = 0, y = 0, newest = 0;
    StoreBuffer buffer;
    const Runs runs(Memory::as_arm, buffer);
    for (u32 i = 1; i <= 3; ++i) {
      write_value(x, i, kRelaxed);
      write_value(y, i, kRelaxed);
    }
    for (u64 next = choice; !buffer.empty(); next = next * 7 + 3) {
      buffer.send_some(Memory::as_arm, next);
      EXPECT_GE(x, newest);
      newest = x;
    }
    EXPECT_EQ(x, 3u);
    EXPECT_EQ(y, 3u);
  }
}

TEST(Stores, AChangeInPlaceSendsAllOnX86AndItsCellOnArm) {
  for (const bool is_x86 : {true, false}) {
    u32 x = 0, y = 0;
    StoreBuffer buffer;
    const Runs runs(is_x86 ? Memory::as_x86 : Memory::as_arm, buffer);
    write_value(x, 1u, kRelaxed);
    write_value(y, 1u, kRelaxed);
    settle_stores(&y, kAcquire);
    EXPECT_EQ(y, 1u);
    EXPECT_EQ(x, is_x86 ? 1u : 0u);
    settle_stores(&y, kRelease);
    EXPECT_EQ(x, 1u);
  }
}

// Store, then load, on both sides (Dekker): only seq_cst on both, or a fence, forbids that neither sees the other.
TEST(Stores, ASeqCstStoreIsSeenBeforeASeqCstLoad) {
  for (const bool is_x86 : {true, false}) {
    u32 x = 0, y = 0;
    StoreBuffer buffer;
    const Runs runs(is_x86 ? Memory::as_x86 : Memory::as_arm, buffer);
    write_value(x, 1u, kSeqCst);
    EXPECT_EQ(x, is_x86 ? 1u : 0u);
    EXPECT_EQ(seen_value(y, kAcquire), 0u);
    EXPECT_EQ(x, is_x86 ? 1u : 0u) << "a weaker load does not wait for it";
    EXPECT_EQ(seen_value(y, kSeqCst), 0u);
    EXPECT_EQ(x, 1u);
    write_value(x, 2u, kRelease);
    send_own_stores();
    EXPECT_EQ(x, 2u) << "a fence";
  }
}

TEST(Stores, AFullBufferSendsItsOldest) {
  u8 cells[100] = {};
  StoreBuffer buffer;
  const Runs runs(Memory::as_arm, buffer);
  for (u8& cell : cells) write_value(cell, u8{1}, kRelaxed);
  EXPECT_EQ(cells[0], 1);
  EXPECT_EQ(cells[99], 0);
  EXPECT_EQ(seen_value(cells[99], kRelaxed), 1);
  buffer.send_all();
  EXPECT_EQ(cells[99], 1);
}

}  // namespace
}  // namespace coffer::trial
