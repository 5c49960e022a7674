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
  bool is_all = false;
};

// As unwind.cpp walks, by what the stack's maker knows, for at most so many frames.
Found walk(LastWalk& last, const Stack& stack, u32 tables = 1, u32 most = trace::kMaxFrames) {
  Found found;
  last.begin(stack.bounds(), tables);
  std::vector<WalkedFrame> inner;
  bool is_whole = true;
  for (std::size_t i = stack.frames.size(); i-- != 0;) {
    const WalkedFrame& frame = stack.frames[i];
    const u32 count = static_cast<u32>(found.pcs.size());
    found.known = last.known(frame.pc, frame.sp, frame.bp, count < most ? most - count : 1);
    if (found.known != 0) {
      for (u32 j = found.known; j-- != 0 && found.pcs.size() < most;) found.pcs.push_back(last.frame(j).pc);
      break;
    }
    if (inner.size() == LastWalk::kMost - 1) {
      is_whole = false;
      break;
    }
    inner.push_back(frame);
    if (found.pcs.size() < most) found.pcs.push_back(frame.pc);
  }
  last.keep(found.known, inner.data(), static_cast<u32>(inner.size()), is_whole);
  // Of more entries some were not compared.
  found.is_all = last.is_whole() && found.known + inner.size() <= most;
  if (found.is_all) found.hash = last.hash();
  return found;
}

std::vector<u64> whole(const Stack& stack, u32 most = trace::kMaxFrames) {
  std::vector<u64> pcs;
  for (std::size_t i = stack.frames.size(); i-- != 0 && pcs.size() < most;) pcs.push_back(stack.frames[i].pc);
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

TEST(Walker, WhoIsInterruptedKeepsIt) {
  static Walker walker;
  EXPECT_TRUE(walker.enter());
  EXPECT_FALSE(walker.enter());
  walker.leave();
  EXPECT_TRUE(walker.enter());
}

// Of at most so many frames, on stacks of at most so many.
void call_and_return(u64 seed, u32 most, u32 deepest) {
  std::mt19937_64 random(seed);
  LastWalk last;
  Stack stack;
  u64 known = 0, walks = 0;
  for (u32 round = 0; round < 100000; ++round) {
    for (u64 returns = random() % (stack.frames.size() + 1); returns-- != 0 && random() % 3 != 0;) {
      stack.frames.pop_back();
    }
    // Few addresses and frame pointers, so that frames often look like those that were there before. Deep ones now and
    // then, for those must begin in some calls.
    const u64 more = random() % (random() % 100 == 0 ? deepest : 6);
    for (u64 i = 0; i < more && stack.frames.size() < deepest; ++i) stack.call(4096 + random() % 8, random() % 3);
    if (stack.frames.empty()) continue;
    const Found found = walk(last, stack, 1, most);
    ASSERT_EQ(found.pcs, whole(stack, most)) << round;
    if (found.is_all) {
      ASSERT_EQ(found.hash, hash_of(found.pcs)) << round;
    }
    known += found.known != 0;
    ++walks;
  }
  EXPECT_GT(known, walks / 2) << "something was known of most";
}

TEST(LastWalk, RandomCallsAndReturns) { call_and_return(7, trace::kMaxFrames, 60); }
// What is cut off stays known, and is not believed without a look.
TEST(LastWalk, RandomCallsWithFewFramesWanted) { call_and_return(8, 8, 60); }
// Deeper than is kept.
TEST(LastWalk, RandomDeepCalls) { call_and_return(9, 32, 600); }

}  // namespace
}  // namespace coffer::record
