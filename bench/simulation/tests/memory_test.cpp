// SPDX-License-Identifier: MIT
// Sequences of accesses whose counts are known.
#include "memory.hpp"

#include <gtest/gtest.h>

namespace simulation {
namespace {

constexpr u64 kLine = 1000;

Shape shape(u32 cores) {
  Shape result;
  result.cores = cores;
  result.cores_a_socket = 4;
  return result;
}

class MemoryTest : public testing::Test {
 protected:
  Outcome read(u32 core, u64 line = kLine) { return go(core, line, Access::read); }
  Outcome write(u32 core, u64 line = kLine) { return go(core, line, Access::write); }
  Outcome change(u32 core, u64 line = kLine) { return go(core, line, Access::change); }
  State state(u32 core, u64 line = kLine) const { return memory_.state(core, line); }

  Costs costs_;
  Memory memory_{shape(8), costs_};

 private:
  Outcome go(u32 core, u64 line, Access access) {
    const u64 ready = memory_.ready_at(line);
    if (ready > now_) now_ = ready;
    return memory_.access(core, line, access, now_);
  }
  u64 now_ = 0;
};

TEST_F(MemoryTest, TheFirstReaderHasItAlone) {
  const Outcome first = read(0);
  EXPECT_TRUE(first.fresh);
  EXPECT_FALSE(first.hit);
  EXPECT_EQ(first.cycles, costs_.memory);
  EXPECT_EQ(state(0), State::exclusive);
  EXPECT_TRUE(read(0).hit);
  // Nobody is asked.
  EXPECT_TRUE(write(0).hit);
  EXPECT_EQ(state(0), State::modified);
}

TEST_F(MemoryTest, AReadTakesAWrittenLineAndBothShareIt) {
  write(0);
  const Outcome second = read(1);
  EXPECT_EQ(second.transfers, 1u);
  EXPECT_EQ(second.invalidations, 0u);
  EXPECT_EQ(second.cycles, costs_.read_owned_near);
  EXPECT_EQ(state(0), State::shared);
  EXPECT_EQ(state(1), State::shared);
  // The third one gets it from the last-level cache: nobody gives anything up.
  const Outcome third = read(2);
  EXPECT_EQ(third.transfers, 0u);
  EXPECT_EQ(third.cycles, costs_.read_shared_near);
}

TEST_F(MemoryTest, AWriteTakesAllCopies) {
  for (u32 core = 0; core < 4; ++core) read(core);
  const Outcome upgrade = write(2);
  EXPECT_EQ(upgrade.invalidations, 3u);
  EXPECT_EQ(upgrade.transfers, 0u);  // it had the data
  EXPECT_EQ(upgrade.cycles, costs_.write_shared_near);
  for (u32 core : {0u, 1u, 3u}) EXPECT_EQ(state(core), State::none);
  EXPECT_EQ(state(2), State::modified);
  const Outcome other = write(3);
  EXPECT_EQ(other.transfers, 1u);
  EXPECT_EQ(other.invalidations, 1u);
  EXPECT_EQ(other.cycles, costs_.write_owned_near);
}

TEST_F(MemoryTest, TwoWritersHandTheLineToAndFro) {
  write(0);
  for (int turn = 0; turn < 10; ++turn) {
    for (const u32 core : {1u, 0u}) {
      const Outcome taken = write(core);
      EXPECT_EQ(taken.transfers, 1u);
      EXPECT_EQ(taken.invalidations, 1u);
      EXPECT_EQ(taken.line, &memory_.line(kLine));
    }
  }
  // Two lines side by side are two lines.
  write(1, kLine + 1);
  for (int turn = 0; turn < 10; ++turn) {
    EXPECT_TRUE(write(1, kLine + 1).hit);
    EXPECT_TRUE(write(0).hit);
  }
}

TEST_F(MemoryTest, AnotherSocketIsFar) {
  write(0);
  EXPECT_EQ(read(4).cycles, costs_.read_owned_far);
  // By now its socket has it.
  EXPECT_EQ(read(5).cycles, costs_.read_shared_near);
  EXPECT_EQ(write(1).cycles, costs_.write_shared_far);
  EXPECT_EQ(write(7).cycles, costs_.write_owned_far);
}

TEST_F(MemoryTest, AChangeCostsMoreThanAWrite) {
  write(0);
  EXPECT_EQ(change(0).cycles, costs_.change);
  EXPECT_EQ(change(1).cycles, costs_.write_owned_near + costs_.change);
  EXPECT_EQ(state(0), State::none);
}

TEST_F(MemoryTest, AHotLineIsAtOnePlaceAtATime) {
  memory_.access(0, kLine, Access::change, 100);
  const u64 first = memory_.ready_at(kLine);
  EXPECT_EQ(first, 100 + costs_.memory + costs_.change);
  memory_.access(1, kLine, Access::change, first);
  EXPECT_EQ(memory_.ready_at(kLine), first + costs_.write_owned_near + costs_.change);
  // Readers do not wait for each other, but for the directory.
  const u64 then = memory_.ready_at(kLine);
  memory_.access(2, kLine, Access::read, then);
  const u64 read_at = memory_.ready_at(kLine);
  memory_.access(3, kLine, Access::read, read_at);
  EXPECT_EQ(memory_.ready_at(kLine), read_at + costs_.directory);
}

TEST_F(MemoryTest, ACacheHasAnEnd) {
  const Shape eight = shape(8);
  write(0);
  // So many more lines of its set: the oldest goes to the last-level cache.
  for (u64 i = 1; i <= kWays; ++i) read(0, kLine + i * eight.cache_sets);
  EXPECT_EQ(state(0), State::none);
  const Outcome again = read(1);
  EXPECT_EQ(again.transfers, 0u);
  EXPECT_EQ(again.cycles, costs_.read_shared_near);
  EXPECT_EQ(state(1), State::exclusive);
}

TEST_F(MemoryTest, AForgottenLineIsInNoCache) {
  write(0);
  read(1);
  memory_.forget(kLine * kLineBytes, kLineBytes);
  EXPECT_EQ(state(0), State::none);
  EXPECT_EQ(state(1), State::none);
  EXPECT_EQ(read(1).transfers, 0u);
  EXPECT_EQ(state(1), State::exclusive);
}

TEST_F(MemoryTest, WhoWalksInOrderFindsTheNextLine) {
  read(0);
  EXPECT_EQ(read(0, kLine + 1).cycles, costs_.read_shared_near);
  EXPECT_EQ(read(0, kLine + 100).cycles, costs_.memory);
}

}  // namespace
}  // namespace simulation
