// SPDX-License-Identifier: MIT
// What is known of a thread's last walk, on a stack that is made here: random calls and returns, with frames whose
// frame pointers are saved, kept or lost. Whatever is taken for known must be what a whole walk finds.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "record/last_walk.hpp"

namespace coffer::record {
namespace {

// Grows down, as a stack does. How the walk comes from a frame to its caller follows from the frame's address, as the
// rules of unwind tables do: how far away the caller's is, and where its frame pointer is.
struct Stack {
  std::vector<u64> words = std::vector<u64>(4096);
  std::vector<WalkedFrame> frames;  // the outermost first

  u64 address(std::size_t index) const { return reinterpret_cast<u64>(&words[index]); }
  StackBounds bounds() const { return {address(0), address(0) + 8 * words.size()}; }
  u64& word(u64 at) { return words[(at - address(0)) / 8]; }

  // Odd addresses are of functions that save the caller's frame pointer and have one of their own.
  void call(u64 pc, u64 own_bp) {
    WalkedFrame made{pc, bounds().high, own_bp, 0};
    if (!frames.empty()) {
      WalkedFrame& caller = frames.back();
      made.sp = caller.sp - 8 * (3 + pc / 2 % 2);
      if (pc % 2 != 0) {
        caller.bp_cell = caller.sp - 16;
        word(caller.bp_cell) = caller.bp;
      } else {
        caller.bp_cell = 0;
        made.bp = caller.bp;
      }
    }
    word(made.sp - 8) = pc;
    frames.push_back(made);
  }
};

struct Found {
  std::vector<u64> pcs;
  u64 hash = 0;
  u32 known = 0;
};

// As unwind.cpp walks, by what the stack's maker knows.
Found walk(LastWalk& last, const Stack& stack, u32 tables = 1) {
  Found found;
  EXPECT_TRUE(last.enter());
  last.begin(stack.bounds(), tables);
  std::vector<WalkedFrame> inner;
  for (std::size_t i = stack.frames.size(); i-- != 0;) {
    const WalkedFrame& frame = stack.frames[i];
    found.known = last.known(frame.pc, frame.sp, frame.bp);
    if (found.known != 0) {
      for (u32 j = found.known; j-- != 0;) found.pcs.push_back(last.frame(j).pc);
      break;
    }
    found.pcs.push_back(frame.pc);
    inner.push_back(frame);
  }
  found.hash = last.keep(found.known, inner.data(), static_cast<u32>(inner.size()));
  last.leave();
  return found;
}

std::vector<u64> whole(const Stack& stack) {
  std::vector<u64> pcs;
  for (std::size_t i = stack.frames.size(); i-- != 0;) pcs.push_back(stack.frames[i].pc);
  return pcs;
}

u64 hash_of(const std::vector<u64>& pcs) {
  u64 hash = kStackSeed;
  for (std::size_t i = pcs.size(); i-- != 0;) hash = stack_hash(hash, pcs[i]);
  return hash;
}

Stack calls(u32 count, u64 parity) {
  Stack stack;
  for (u64 i = 1; i <= count; ++i) stack.call(0x1000 * (i + 1) + parity, i);
  return stack;
}

TEST(LastWalk, TheSameStackIsKnownFromItsFirstFrameOn) {
  LastWalk last;
  const Stack stack = calls(5, 1);
  EXPECT_EQ(walk(last, stack).known, 0u);
  const Found again = walk(last, stack);
  EXPECT_EQ(again.known, 5u);
  EXPECT_EQ(again.pcs, whole(stack));
}

TEST(LastWalk, AnotherCallerAtTheSamePlaceIsSeen) {
  LastWalk last;
  Stack stack = calls(3, 0);
  walk(last, stack);
  // The innermost frame is the same, but its caller returns elsewhere.
  stack.word(stack.frames[0].sp - 8) = stack.frames[0].pc = 0x9000;
  EXPECT_EQ(walk(last, stack).pcs, (std::vector<u64>{0x4000, 0x3000, 0x9000}));
}

TEST(LastWalk, ASavedFramePointerThatChangedIsSeen) {
  LastWalk last;
  Stack stack = calls(3, 1);
  walk(last, stack);
  stack.word(stack.frames[1].bp_cell) = stack.frames[1].bp = 77;
  EXPECT_EQ(walk(last, stack).known, 1u) << "only the outermost is";
}

TEST(LastWalk, NothingIsKnownOfAnotherStackOrOfOtherTables) {
  LastWalk last;
  const Stack stack = calls(3, 0);
  walk(last, stack);
  EXPECT_EQ(walk(last, stack, 2).known, 0u);
  EXPECT_EQ(walk(last, stack, 2).known, 3u);
  EXPECT_EQ(walk(last, calls(3, 0), 2).known, 0u);
}

TEST(LastWalk, WhatReadMoreThanIsKeptIsNotBelieved) {
  LastWalk last;
  Stack stack = calls(4, 0);
  stack.frames[1].bp_cell = kNotFixed;
  walk(last, stack);
  EXPECT_EQ(walk(last, stack).known, 2u) << "from the frame on that was found so";
}

TEST(LastWalk, WhoIsInterruptedKeepsIt) {
  LastWalk last;
  EXPECT_TRUE(last.enter());
  EXPECT_FALSE(last.enter());
  last.leave();
  EXPECT_TRUE(last.enter());
}

TEST(LastWalk, RandomCallsAndReturns) {
  std::mt19937_64 random(7);
  LastWalk last;
  Stack stack;
  u64 known = 0, walks = 0;
  for (u32 round = 0; round < 200000; ++round) {
    for (u64 returns = random() % (stack.frames.size() + 1); returns-- != 0 && random() % 3 != 0;) {
      stack.frames.pop_back();
    }
    // Few addresses and frame pointers, so that frames often look like those that were there before.
    for (u64 more = random() % 6; more-- != 0 && stack.frames.size() < LastWalk::kMost;) {
      stack.call(4096 + random() % 8, random() % 3);
    }
    if (stack.frames.empty()) continue;
    const Found found = walk(last, stack);
    ASSERT_EQ(found.pcs, whole(stack)) << round;
    ASSERT_EQ(found.hash, hash_of(found.pcs)) << round;
    known += found.known;
    ++walks;
  }
  EXPECT_GT(known, walks) << "more than a frame of each walk was known";
}

}  // namespace
}  // namespace coffer::record
