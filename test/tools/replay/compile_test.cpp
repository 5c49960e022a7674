// SPDX-License-Identifier: MIT
// Events to a plan: slots, hand-overs, threads, samples; events are made here, no file is read.
#include "replay/compile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

namespace coffer::replay {
namespace {

using trace::Event;
using trace::Op;

class Events {
 public:
  explicit Events(const CompileOptions& options = {}) : compiler(options) {}

  void put(Op op, u32 thread, u64 block, u64 size = 0) {
    Event event;
    event.op = op;
    event.thread = thread;
    event.block = block;
    event.size = size;
    event.time = time += step;
    event.flags = is_counted && instructions != 0 ? trace::kCounted : 0;
    event.instructions = instructions;
    compiler.add(event);
  }
  void alloc(u32 thread, u64 block, u64 size = 64) { put(Op::malloc, thread, block, size); }
  void free(u32 thread, u64 block) { put(Op::free, thread, block); }

  Compiler compiler;
  u64 time = 0, step = 100, instructions = 0;
  bool is_counted = true;
};

std::vector<PlanStep> steps_of(const Plan& plan, std::size_t thread) {
  const PlanThread& one = plan.threads[thread];
  const auto first = plan.steps.begin() + static_cast<std::ptrdiff_t>(one.first_step);
  return {first, first + static_cast<std::ptrdiff_t>(one.steps)};
}

// Every step with its place in the trace.
std::vector<std::pair<u64, PlanStep>> timeline(const Plan& plan, std::size_t thread) {
  std::vector<std::pair<u64, PlanStep>> result;
  u64 sequence = plan.threads[thread].first_sequence;
  for (const PlanStep& step : steps_of(plan, thread)) {
    sequence += step.advance();
    if (step.kind() == Step::advance) sequence += step.size();
    result.emplace_back(sequence, step);
  }
  return result;
}

std::vector<Step> kinds(const Plan& plan, std::size_t thread) {
  std::vector<Step> result;
  for (const PlanStep& step : steps_of(plan, thread)) result.push_back(step.kind());
  return result;
}

TEST(Compile, OneThreadUsesItsSlotsAgain) {
  Events events;
  for (u64 block = 1; block <= 100; ++block) {
    events.alloc(1, block, block);
    events.free(1, block);
  }
  const Plan plan = events.compiler.finish();
  EXPECT_EQ(plan.head.private_slots, 1u);
  EXPECT_EQ(plan.head.shared_slots, 0u);
  EXPECT_EQ(plan.head.all_operations, 200u);
  EXPECT_EQ(plan.head.operations[0], 100u);
  EXPECT_EQ(plan.head.operations[4], 100u);
  EXPECT_EQ(plan.head.peak_live, 100u);
  EXPECT_EQ(plan.head.end_live, 0u);
  const auto steps = steps_of(plan, 0);
  ASSERT_EQ(steps.size(), 200u);
  EXPECT_EQ(steps[198].size(), 100u);
  EXPECT_EQ(steps[199].size(), 100u) << "a free says how large its block is";
}

TEST(Compile, ABlockThatChangesHandsHasASlotOfItsOwn) {
  Events events;
  for (u64 block = 1; block <= 10; ++block) {
    events.alloc(1, block);
    events.free(2, block);
  }
  const Plan plan = events.compiler.finish();
  EXPECT_EQ(plan.head.shared_slots, 10u);
  EXPECT_EQ(plan.head.private_slots, 1u);  // taken and given back each time
  std::set<u32> filled, taken;
  for (const PlanStep& step : steps_of(plan, 0)) {
    if (step.kind() == Step::malloc) filled.insert(step.slot);
  }
  for (const PlanStep& step : steps_of(plan, 1)) taken.insert(step.slot);
  EXPECT_EQ(filled.size(), 10u);
  EXPECT_EQ(filled, taken);
  for (const u32 slot : filled) EXPECT_NE(slot & kShared, 0u);
}

TEST(Compile, AReallocTakesFromOneSlotAndFillsAnother) {
  Events events;
  events.alloc(1, 1, 100);
  events.put(Op::realloc, 2, 1, 300);
  events.put(Op::realloc, 2, 1, 200);
  events.free(1, 1);
  const Plan plan = events.compiler.finish();
  EXPECT_EQ(kinds(plan, 1), (std::vector{Step::old_size, Step::realloc, Step::old_size, Step::realloc}));
  const auto second = steps_of(plan, 1), first = steps_of(plan, 0);
  EXPECT_EQ(second[0].size(), 100u);
  EXPECT_EQ(second[1].slot, first[0].slot);    // handed over by thread 1
  EXPECT_EQ(second[1].other, second[3].slot);  // its own, private
  EXPECT_EQ(second[3].slot & kShared, 0u);
  EXPECT_EQ(second[3].other & kShared, kShared);  // handed back
  const auto freed = std::find_if(first.begin(), first.end(), [](auto& s) { return s.kind() == Step::free; });
  ASSERT_NE(freed, first.end());
  EXPECT_EQ(freed->slot, second[3].other);
  EXPECT_EQ(plan.head.peak_live, 300u);
  EXPECT_EQ(plan.head.shared_slots, 2u);
}

TEST(Compile, ReallocOfAnUnknownBlockBeginsIt) {
  Events events;
  events.put(Op::realloc, 1, 1, 50);
  events.free(1, 1);
  const Plan plan = events.compiler.finish();
  EXPECT_EQ(kinds(plan, 0), (std::vector{Step::malloc, Step::free}));
}

TEST(Compile, WhatFailedIsLeftOut) {
  Events events;
  Event failed;
  failed.thread = 1;
  failed.size = u64{1} << 62;
  failed.flags = trace::kFailed;
  events.compiler.add(failed);
  events.alloc(1, 1);
  const Plan plan = events.compiler.finish();
  EXPECT_EQ(plan.head.left_out, 1u);
  EXPECT_EQ(plan.head.all_operations, 1u);
  EXPECT_EQ(plan.head.end_live, 64u);
}

TEST(Compile, FaultsHaveMessages) {
  Events none;
  EXPECT_THROW(none.compiler.finish(), trace::Error);
  Events unknown;
  EXPECT_THROW(unknown.free(1, 7), trace::Error);
  Events huge;
  EXPECT_THROW(huge.alloc(1, 1, u64{1} << 50), trace::Error);
}

// Thread 1 works throughout; 2 and 3 overlap; 4 comes when both are gone.
TEST(Compile, ThreadsStartAndEndAsTheyDid) {
  Events events;
  u64 block = 0;
  const auto work = [&](u32 thread) {
    events.alloc(thread, ++block);
    events.free(thread, block);
  };
  for (const u32 thread : {1, 2, 3, 2, 3, 1, 4, 1}) work(thread);
  const Plan plan = events.compiler.finish();
  EXPECT_EQ(plan.head.threads, 4u);
  EXPECT_EQ(plan.head.most_threads, 3u);
  std::vector<std::pair<Step, u32>> others;
  u64 last = 0;
  for (const auto& [sequence, step] : timeline(plan, 0)) {
    EXPECT_GE(sequence, last);
    last = sequence;
    if (step.kind() == Step::start || step.kind() == Step::join) others.emplace_back(step.kind(), step.slot);
    if (step.kind() == Step::start) {
      EXPECT_EQ(sequence, plan.threads[step.slot].first_sequence);
    }
  }
  using Pair = std::pair<Step, u32>;
  EXPECT_EQ(
      others,
      (std::vector<Pair>{
          {Step::start, 1}, {Step::start, 2}, {Step::join, 1}, {Step::join, 2}, {Step::start, 3}, {Step::join, 3}}));
}

TEST(Compile, AThreadLivesUntilItsEndWasRecorded) {
  Events events;
  events.alloc(1, 1);
  events.alloc(2, 2);
  events.alloc(1, 3);
  events.put(Op::thread_end, 2, 0);
  events.alloc(3, 4);
  const Plan together = events.compiler.finish();
  EXPECT_EQ(together.head.most_threads, 2u);
  Events later;
  later.alloc(1, 1);
  later.alloc(2, 2);
  later.alloc(3, 4);
  later.put(Op::thread_end, 2, 0);
  EXPECT_EQ(later.compiler.finish().head.most_threads, 3u);
}

TEST(Compile, PlacesInTheTraceSurviveLongPauses) {
  Events events;
  events.alloc(2, 1);
  for (u64 i = 0; i < 3 * PlanStep::kMaxAdvance; ++i) events.alloc(1, i + 2);
  events.free(2, 1);
  const Plan plan = events.compiler.finish();
  u64 found = 0;
  for (const auto& [sequence, step] : timeline(plan, 0)) {
    if (step.kind() == Step::free) found = sequence;
  }
  EXPECT_EQ(found, 3 * PlanStep::kMaxAdvance + 2);
}

TEST(Compile, SamplesKnowWhatWasLive) {
  CompileOptions options;
  options.operations = 100;
  options.samples = 10;
  Events events(options);
  for (u64 block = 1; block <= 100; ++block) events.alloc(1, block, 10);
  const Plan plan = events.compiler.finish();
  ASSERT_EQ(plan.samples.size(), 10u);
  for (u64 i = 0; i < 10; ++i) EXPECT_EQ(plan.samples[i], 100 * (i + 1));
}

TEST(Compile, GapsAreWaitedForWhereAsked) {
  CompileOptions options;
  options.gaps = Gaps::time;
  Events events(options);
  events.alloc(1, 1);
  events.alloc(1, 2);
  events.step = 5'000'000;
  events.alloc(1, 3);
  const Plan plan = events.compiler.finish();
  EXPECT_EQ(kinds(plan, 0), (std::vector{Step::malloc, Step::malloc, Step::wait, Step::malloc}));
  EXPECT_EQ(steps_of(plan, 0)[2].size(), 5'000'200u);
}

TEST(Compile, InstructionsAreExecutedWhereAsked) {
  CompileOptions options;
  options.gaps = Gaps::instructions;
  Events events(options);
  events.instructions = 20;
  events.alloc(1, 1);
  events.alloc(1, 2);
  events.alloc(2, 3);
  events.alloc(1, 4);
  events.instructions = 1'000'000;
  events.free(1, 1);
  events.is_counted = false;
  events.free(1, 2);
  const Plan plan = events.compiler.finish();
  // Short gaps add up, for each thread.
  EXPECT_EQ(kinds(plan, 0), (std::vector{Step::malloc, Step::work, Step::malloc, Step::start, Step::malloc, Step::work,
                                         Step::free, Step::free, Step::join}));
  EXPECT_EQ(steps_of(plan, 0)[1].size(), 40u);
  EXPECT_EQ(steps_of(plan, 0)[5].size(), 1'000'020u);
  EXPECT_EQ(plan.head.instructions, 1'000'060u);
}

TEST(Compile, APlanIsWrittenOrTheReasonGiven) {
  Events events;
  events.alloc(1, 1);
  const Plan plan = events.compiler.finish();
  EXPECT_THROW(plan.write("/no/such/directory/plan"), trace::Error);
  EXPECT_THROW(plan.write("/dev/full"), trace::Error);
  const std::string path = testing::TempDir() + "compile_test.plan";
  plan.write(path);
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  ASSERT_NE(file, nullptr);
  PlanHead head{};
  EXPECT_EQ(std::fread(&head, sizeof head, 1, file), 1u);
  std::fseek(file, 0, SEEK_END);
  EXPECT_EQ(static_cast<u64>(std::ftell(file)), head.bytes);
  std::fclose(file);
  std::remove(path.c_str());
}

TEST(FlatMap, FindsWhatIsThereAfterManyChanges) {
  FlatMap<u64> map;
  std::map<u64, u64> model;
  u64 random = 1;
  for (int i = 0; i < 50'000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const u64 key = (random >> 40) % 3000 + 1;
    ASSERT_EQ(map.find(key) != nullptr, model.count(key) == 1);
    if (model.count(key) == 1) {
      ASSERT_EQ(map.take(key), model[key]);
      model.erase(key);
    } else {
      map.insert(key, random);
      model[key] = random;
    }
  }
  u64 seen = 0;
  map.each([&](u64 key, u64 value) { seen += model.at(key) == value ? 1 : 0; });
  EXPECT_EQ(seen, model.size());
  EXPECT_EQ(map.size(), model.size());
}

}  // namespace
}  // namespace coffer::replay
