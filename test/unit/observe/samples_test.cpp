// SPDX-License-Identifier: MIT
#include "observe/samples.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "fresh.hpp"
#include "support/random.hpp"

namespace coffer {
namespace {

CallStack stack_of(std::vector<uptr> frames) {
  CallStack stack = {};
  stack.count = static_cast<u32>(frames.size());
  for (usize i = 0; i < frames.size(); ++i) stack.frames[i] = frames[i];
  return stack;
}

const void* block(uptr number) { return reinterpret_cast<const void*>(0x100000 + number * 16); }

FRESH_TEST(Samples, AddUpByStack) {
  static Samples samples;
  EXPECT_FALSE(samples.remove(block(1)));
  EXPECT_TRUE(samples.add(block(1), 100, 2.0, stack_of({10, 20, 30}), 0));
  EXPECT_TRUE(samples.add(block(2), 50, 4.0, stack_of({10, 20, 30}), 0));
  EXPECT_TRUE(samples.add(block(3), 7, 1.0, stack_of({11, 20, 30}), 0));
  EXPECT_EQ(samples.live(), 3u);
  ASSERT_EQ(samples.stacks(), 3u) << "the first is the one without frames";
  EXPECT_EQ(samples.addresses(), 4u) << "each address once";
  EXPECT_EQ(samples.sums(1).allocated_blocks, 6.0);
  EXPECT_EQ(samples.sums(1).allocated_bytes, 400.0);
  double weight = 0;
  EXPECT_TRUE(samples.remove(block(1), &weight));
  EXPECT_EQ(weight, 2.0);
  EXPECT_FALSE(samples.remove(block(1)));
  EXPECT_EQ(samples.sums(1).freed_blocks, 2.0);
  EXPECT_EQ(samples.sums(1).freed_bytes, 200.0);
  std::vector<uptr> frames;
  samples.for_each_frame(2, [&](u32 index) { frames.push_back(samples.address(index)); });
  EXPECT_EQ(frames, (std::vector<uptr>{11, 20, 30}));
}

FRESH_TEST(Samples, ManyComeAndGoInAnyOrder) {
  static Samples samples;
  std::map<uptr, u32> model;
  test::Random random(11);
  for (u32 round = 0; round < 200'000; ++round) {
    const uptr number = random.below(20'000);
    if (model.erase(number) != 0) {
      ASSERT_TRUE(samples.remove(block(number))) << round;
    } else if (round % 3 != 0) {
      ASSERT_TRUE(samples.add(block(number), 16, 1, stack_of({number % 500 + 1, 2}), 0));
      model[number] = round;
    } else {
      ASSERT_FALSE(samples.remove(block(number)));
    }
    ASSERT_EQ(samples.live(), model.size());
  }
  for (const auto& [number, round] : model) EXPECT_TRUE(samples.remove(block(number)));
  EXPECT_EQ(samples.live(), 0u);
}

// The highest moment beside a model that copies all stacks at each one, of a process that holds more and more.
FRESH_TEST(Samples, TheHighestMomentIsExact) {
  static Samples samples;
  constexpr u32 kStacks = 40;
  struct One {
    u32 stack;
    usize bytes;
    double weight;
  };
  std::map<uptr, One> model;
  double live[kStacks] = {}, blocks[kStacks] = {}, total = 0, peak = 0;
  std::vector<double> at_peak(kStacks), blocks_at_peak(kStacks);
  test::Random random(5);
  u64 last_ns = 0;
  for (u32 round = 0; round < 50'000; ++round) {
    // It rises and falls, ever higher.
    const bool rises = round / 700 % 3 != 2;
    const uptr number = random.below(rises ? 1'000'000 : 1 + round % 64);
    const auto found = rises ? model.find(number) : model.lower_bound(number);
    if (found != model.end()) {
      const One one = found->second;
      ASSERT_TRUE(samples.remove(block(found->first)));
      model.erase(found);
      live[one.stack] -= one.weight * static_cast<double>(one.bytes);
      blocks[one.stack] -= one.weight;
      total -= one.weight * static_cast<double>(one.bytes);
    } else {
      const One one = {static_cast<u32>(random.below(kStacks)), 16 * (1 + random.below(100)), 1.0 + random.below(4)};
      // What Coffer holds grows with every one.
      ASSERT_TRUE(samples.add(block(number), one.bytes, one.weight, stack_of({one.stack + 1}), round + 1));
      model[number] = one;
      live[one.stack] += one.weight * static_cast<double>(one.bytes);
      blocks[one.stack] += one.weight;
      total += one.weight * static_cast<double>(one.bytes);
      if (total > peak) {
        peak = total;
        at_peak.assign(live, live + kStacks);
        blocks_at_peak.assign(blocks, blocks + kStacks);
        EXPECT_GE(samples.peak_ns(0), last_ns);
        last_ns = samples.peak_ns(0);
      }
    }
    EXPECT_EQ(samples.peak_ns(0), last_ns);
    if (round % 100 != 0) continue;
    double sum = 0;
    for (u32 i = 1; i < samples.stacks(); ++i) {
      uptr frame = 0;
      samples.for_each_frame(i, [&](u32 index) { frame = samples.address(index); });
      ASSERT_EQ(samples.at_peak(i).bytes, at_peak[frame - 1]) << round;
      ASSERT_EQ(samples.at_peak(i).blocks, blocks_at_peak[frame - 1]) << round;
      sum += samples.at_peak(i).bytes;
    }
    ASSERT_EQ(sum, peak);
  }
}

FRESH_TEST(Samples, MoreStacksThanThereIsRoomForAreCountedTogether) {
  static Samples samples;
  constexpr u32 kMany = 40'000;
  for (u32 i = 0; i < kMany; ++i) ASSERT_TRUE(samples.add(block(i), 10, 1, stack_of({i + 1, i % 7 + 1}), 0));
  double blocks = 0;
  for (u32 i = 0; i < samples.stacks(); ++i) blocks += samples.sums(i).allocated_blocks;
  EXPECT_EQ(blocks, double{kMany}) << "none is lost";
  EXPECT_GT(samples.sums(0).allocated_blocks, 0);
  for (u32 i = 0; i < kMany; ++i) ASSERT_TRUE(samples.remove(block(i)));
}

FRESH_TEST(Samples, AnEmptyStackHasItsPlace) {
  static Samples samples;
  EXPECT_TRUE(samples.add(block(1), 10, 3, stack_of({}), 0));
  EXPECT_EQ(samples.stacks(), 1u);
  EXPECT_EQ(samples.sums(0).allocated_bytes, 30.0);
}

double peak_of(const Samples& samples) {
  double sum = 0;
  for (u32 i = 0; i < samples.stacks(); ++i) sum += samples.at_peak(i).bytes;
  return sum;
}

double live_of(const Samples& samples) {
  double sum = 0;
  for (u32 i = 0; i < samples.stacks(); ++i) sum += samples.sums(i).allocated_bytes - samples.sums(i).freed_bytes;
  return sum;
}

// A program with blocks of 512 bytes, of which one in 32 or so is sampled.
class Sampled {
 public:
  explicit Sampled(u64 seed) : random_(seed) {}
  void take(uptr number, usize held) {
    if (random_.below(kOneIn) == 0) samples.add(block(number), kBytes, kOneIn, stack_of({number % 7 + 1}), held);
  }
  void replace(u32 live, u32 times, usize held) {
    for (u32 i = 0; i < times; ++i) {
      const uptr number = random_.below(live);
      samples.remove(block(number));
      take(number, held);
    }
  }
  static constexpr usize kBytes = 512, kOneIn = 32;
  Samples samples;

 private:
  test::Random random_;
};

// The sum over the samples goes up and down around what is live, and its highest value is no moment of the program.
FRESH_TEST(Samples, ChanceIsNoHighestMoment) {
  constexpr u32 kLive = 2048, kPrograms = 8;
  double sum = 0;
  static Sampled programs[kPrograms] = {Sampled(1), Sampled(2), Sampled(3), Sampled(4),
                                        Sampled(5), Sampled(6), Sampled(7), Sampled(8)};
  for (Sampled& one : programs) {
    for (u32 i = 0; i < kLive; ++i) one.take(i, (i + 1) * Sampled::kBytes);
    for (u32 i = 0; i < 200; ++i) {
      one.replace(kLive, 1000, kLive * Sampled::kBytes);
      ASSERT_GE(peak_of(one.samples), live_of(one.samples)) << "nobody is told that more is live than ever was";
    }
    sum += peak_of(one.samples) / (kLive * Sampled::kBytes);
  }
  // One deviation of the sum is an eighth of it. Without regard to chance it is 1.4.
  EXPECT_NEAR(sum / kPrograms, 1, 0.2);
}

// Chance explains the second block, so it makes no highest moment; but who asks meanwhile is told of it.
FRESH_TEST(Samples, WhatIsAboveTheHighestMomentIsTold) {
  static Samples samples;
  ASSERT_TRUE(samples.add(block(1), 100, 30, stack_of({10}), 1));
  const u64 first = samples.peak_ns(7);
  EXPECT_GT(first, 7u);
  ASSERT_TRUE(samples.add(block(2), 100, 30, stack_of({20}), 1));
  EXPECT_EQ(samples.peak_ns(7), 7u);
  EXPECT_EQ(peak_of(samples), 6000);
  ASSERT_TRUE(samples.remove(block(2)));
  EXPECT_EQ(samples.peak_ns(7), first);
  EXPECT_EQ(peak_of(samples), 3000);
}

// More is live in memory that Coffer held already.
FRESH_TEST(Samples, ARiseThatChanceDoesNotExplainIsAHighestMoment) {
  constexpr u32 kLive = 2048;
  static Sampled program(3);
  for (u32 i = 0; i < kLive; ++i) program.take(i, 1);
  for (u32 i = kLive; i < 4 * kLive; ++i) program.take(i, 1);
  for (u32 i = 0; i < 4 * kLive; ++i) program.samples.remove(block(i));
  EXPECT_NEAR(peak_of(program.samples) / (4 * kLive * Sampled::kBytes), 1, 0.4);
  // Where every block is sampled there is no chance.
  static Samples every;
  for (u32 i = 0; i < 100; ++i) {
    ASSERT_TRUE(every.add(block(i), 10 + i, 1, stack_of({i + 1}), 1));
    if (i != 0) {
      ASSERT_TRUE(every.remove(block(i - 1)));
    }
  }
  EXPECT_EQ(peak_of(every), 10 + 99 + 10 + 98);
}

// As in a fork child that finds another thread at work in the samples: what it knows then is its own.
FRESH_TEST(Samples, ForgottenTheyBeginAnew) {
  static Samples samples;
  ASSERT_TRUE(samples.add(block(1), 1000, 2, stack_of({10}), 1));
  ASSERT_TRUE(samples.remove(block(1)));
  EXPECT_NE(samples.peak_ns(0), 0u);
  samples.forget();
  EXPECT_EQ(samples.peak_ns(0), 0u);
  EXPECT_EQ(samples.stacks(), 0u);
  EXPECT_EQ(samples.live(), 0u);
  EXPECT_FALSE(samples.remove(block(1)));
  ASSERT_TRUE(samples.add(block(2), 10, 1, stack_of({20}), 1));
  EXPECT_NE(samples.peak_ns(0), 0u);
  EXPECT_EQ(samples.at_peak(samples.stacks() - 1).bytes, 10.0);
  EXPECT_TRUE(samples.remove(block(2)));
  EXPECT_EQ(samples.at_peak(samples.stacks() - 1).bytes, 10.0);
}

}  // namespace
}  // namespace coffer
