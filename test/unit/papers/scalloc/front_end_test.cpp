// SPDX-License-Identifier: MIT
// The life of spans through the front end (sections 3.4 and 5), one thing at a time. What threads do at once is in
// threads_test.cpp.
#include "papers/scalloc/front_end.hpp"

#include <algorithm>

#include "os/fake/fake.hpp"
#include "papers/scalloc/ground.hpp"

namespace coffer::scalloc {
namespace {

constexpr usize kSize = 256;  // 127 blocks, reusable above 101
constexpr u32 kBlocks = 127;
constexpr u32 kThreshold = 101;

FRESH_TEST(ScallocFrontEnd, AllocatesFromOneHotSpanInTheOrderOfAddresses) {
  User user(start_core());
  const std::vector<void*> blocks = user.allocate_many(kBlocks, kSize);
  EXPECT_TRUE(std::is_sorted(blocks.begin(), blocks.end()));
  for (void* block : blocks) EXPECT_EQ(span_of(user.core, block), span_of(user.core, blocks[0]));
  EXPECT_EQ(state_of(user.core, blocks[0]), State::hot);
  void* next = user.allocate(kSize);
  EXPECT_NE(span_of(user.core, next), span_of(user.core, blocks[0]));
  EXPECT_EQ(state_of(user.core, blocks[0]), State::floating);
  EXPECT_EQ(user.core.check(), 0u);
}

// Figure 3 by local frees: floating, reusable above the threshold, free at the last free.
FRESH_TEST(ScallocFrontEnd, FloatingReusableFree) {
  User user(start_core());
  const std::vector<void*> blocks = user.allocate_many(kBlocks, kSize);
  void* next = user.allocate(kSize);
  for (u32 i = 0; i < kBlocks; ++i) {
    const State expected = i <= kThreshold ? State::floating : State::reusable;
    EXPECT_EQ(state_of(user.core, blocks[0]), expected) << i;
    EXPECT_EQ(user.core.check(), 0u);
    user.deallocate(blocks[i]);
  }
  EXPECT_EQ(state_of(user.core, blocks[0]), State::free);
  user.deallocate(next);
  EXPECT_EQ(state_of(user.core, next), State::hot);  // no action is taken on a hot span
  EXPECT_EQ(user.core.check(), 0u);
}

// The same by another thread's frees.
FRESH_TEST(ScallocFrontEnd, RemoteFreesMakeASpanReusableForItsOwnerAndFree) {
  Core& core = start_core();
  User user(core, 1);
  User other(core, 2);
  const std::vector<void*> blocks = user.allocate_many(kBlocks, kSize);
  void* next = user.allocate(kSize);
  for (u32 i = 0; i <= kThreshold; ++i) other.deallocate(blocks[i]);
  EXPECT_EQ(state_of(core, blocks[0]), State::reusable);
  EXPECT_EQ(user.lab->reusable[class_of(kSize)].first(), span_of(core, blocks[0]));
  EXPECT_EQ(other.lab->reusable[class_of(kSize)].first(), nullptr);
  for (u32 i = kThreshold + 1; i < kBlocks; ++i) other.deallocate(blocks[i]);
  EXPECT_EQ(state_of(core, blocks[0]), State::free);
  EXPECT_EQ(core.check(), 0u);
  other.deallocate(next);
  EXPECT_EQ(core.check(), 0u);
}

FRESH_TEST(ScallocFrontEnd, ReusableSpansAreTakenBeforeThePool) {
  User user(start_core());
  std::vector<void*> blocks = user.allocate_many(kBlocks, kSize);
  const std::vector<void*> more = user.allocate_many(kBlocks, kSize);
  for (u32 i = 0; i <= kThreshold; ++i) user.deallocate(blocks[i]);
  ASSERT_EQ(state_of(user.core, blocks[0]), State::reusable);
  void* again = user.allocate(kSize);
  EXPECT_EQ(span_of(user.core, again), span_of(user.core, blocks[0]));
  EXPECT_EQ(state_of(user.core, again), State::hot);
  EXPECT_EQ(user.core.check(), 0u);
}

// Case (b) of section 3.4.
FRESH_TEST(ScallocFrontEnd, AHotSpanRefillsFromItsRemoteListAboveTheThreshold) {
  Core& core = start_core();
  User user(core, 1);
  User other(core, 2);
  std::vector<void*> blocks = user.allocate_many(kBlocks, kSize);
  for (u32 i = 0; i <= kThreshold; ++i) other.deallocate(blocks[i]);
  EXPECT_EQ(state_of(core, blocks[0]), State::hot);
  EXPECT_EQ(span_of(core, user.allocate(kSize)), span_of(core, blocks[0]));
  EXPECT_EQ(core.check(), 0u);
}

// Below the threshold it floats, and what was freed while it was hot is not forgotten.
FRESH_TEST(ScallocFrontEnd, AHotSpanWithFewRemoteBlocksFloats) {
  Core& core = start_core();
  User user(core, 1);
  User other(core, 2);
  std::vector<void*> blocks = user.allocate_many(kBlocks, kSize);
  for (u32 i = 0; i < kThreshold; ++i) other.deallocate(blocks[i]);
  EXPECT_NE(span_of(core, user.allocate(kSize)), span_of(core, blocks[0]));
  EXPECT_EQ(state_of(core, blocks[0]), State::floating);
  for (u32 i = kThreshold; i < kBlocks; ++i) other.deallocate(blocks[i]);
  EXPECT_EQ(state_of(core, blocks[0]), State::free);
  EXPECT_EQ(core.check(), 0u);
}

// At 100 % remote blocks never suffice for a refill: a hot span of which all were freed remotely floats, and nobody
// would free it again.
FRESH_TEST(ScallocFrontEnd, AnEmptySpanThatFloatsIsFreeAtOnce) {
  Parameters parameters = small_parameters();
  parameters.reuse = false;
  Core& core = start_core(parameters);
  User user(core, 1);
  User other(core, 2);
  std::vector<void*> blocks = user.allocate_many(kBlocks, kSize);
  other.deallocate_all(blocks);
  EXPECT_EQ(state_of(core, blocks[0]), State::hot);
  void* next = user.allocate(kSize);
  // It went to the pool and came back, with its list anew.
  EXPECT_EQ(span_of(core, next), span_of(core, blocks[0]));
  EXPECT_EQ(next, blocks[0]);
  EXPECT_EQ(core.check(), 0u);
}

FRESH_TEST(ScallocFrontEnd, WithoutReuseSpansFloatUntilTheyAreEmpty) {
  Parameters parameters = small_parameters();
  parameters.reuse = false;
  User user(start_core(parameters));
  std::vector<void*> blocks = user.allocate_many(kBlocks, kSize);
  user.allocate(kSize);
  for (u32 i = 0; i + 1 < kBlocks; ++i) user.deallocate(blocks[i]);
  EXPECT_EQ(state_of(user.core, blocks[0]), State::floating);
  user.deallocate(blocks[kBlocks - 1]);
  EXPECT_EQ(state_of(user.core, blocks[0]), State::free);
}

FRESH_TEST(ScallocFrontEnd, TheThresholdIsAParameter) {
  Parameters parameters = small_parameters();
  parameters.reusability = 50;
  User user(start_core(parameters));
  std::vector<void*> blocks = user.allocate_many(kBlocks, kSize);
  user.allocate(kSize);
  for (u32 i = 0; i < 63; ++i) user.deallocate(blocks[i]);
  EXPECT_EQ(state_of(user.core, blocks[0]), State::floating);
  user.deallocate(blocks[63]);
  EXPECT_EQ(state_of(user.core, blocks[0]), State::reusable);
}

// Listing 3 leaves a span of one block reusable for ever: the one free makes it reusable, with the epoch that would
// have made it free.
FRESH_TEST(ScallocFrontEnd, ASpanOfOneBlockIsFreeAtItsFree) {
  User user(start_core());
  void* first = user.allocate(kLargestBlock);
  void* second = user.allocate(kLargestBlock);
  EXPECT_NE(span_of(user.core, first), span_of(user.core, second));
  EXPECT_EQ(state_of(user.core, first), State::floating);
  user.deallocate(first);
  EXPECT_EQ(state_of(user.core, first), State::free);
  EXPECT_EQ(user.core.check(), 0u);
}

FRESH_TEST(ScallocFrontEnd, TheListOfASpanFromThePoolIsInTheOrderOfAddresses) {
  User user(start_core());
  std::vector<void*> blocks = user.allocate_many(kBlocks, kSize);
  void* next = user.allocate(kSize);
  std::reverse(blocks.begin(), blocks.end());
  user.deallocate_all(blocks);
  ASSERT_EQ(state_of(user.core, blocks[0]), State::free);
  user.allocate_many(kBlocks - 1, kSize);  // the rest of the hot span
  const std::vector<void*> again = user.allocate_many(kBlocks, kSize);
  EXPECT_EQ(span_of(user.core, again[0]), span_of(user.core, blocks[0]));
  EXPECT_TRUE(std::is_sorted(again.begin(), again.end()));
  user.deallocate(next);
}

// --- Ends of threads. ---

FRESH_TEST(ScallocFrontEnd, TheEndOfAThreadLeavesOrphansThatFreesAdopt) {
  Core& core = start_core();
  User user(core, 1);
  User other(core, 2);
  std::vector<void*> hot = user.allocate_many(10, 64);
  std::vector<void*> reusable = user.allocate_many(kBlocks, kSize);
  user.allocate(kSize);
  for (u32 i = 0; i <= kThreshold; ++i) user.deallocate(reusable[i]);
  ASSERT_EQ(state_of(core, reusable[0]), State::reusable);
  const Owner dead = span_of(core, hot[0])->owner.load(relaxed);
  user.end();
  EXPECT_TRUE(FrontEnd::is_orphan(dead));
  EXPECT_EQ(state_of(core, hot[0]), State::floating);
  EXPECT_EQ(state_of(core, reusable[0]), State::floating);
  EXPECT_EQ(core.check(), 0u);
  // One that has no LAB adopts nothing.
  core.deallocate(nullptr, hot[0]);
  EXPECT_EQ(span_of(core, hot[1])->owner.load(relaxed), dead);
  // A free by another adopts; listing 3 would put the span into the set of its dead owner, which refuses.
  other.deallocate(reusable[kThreshold + 1]);
  EXPECT_EQ(span_of(core, reusable[0])->owner.load(relaxed), other.lab->owner.load(relaxed));
  EXPECT_EQ(other.lab->reusable[class_of(kSize)].first(), span_of(core, reusable[0]));
  EXPECT_EQ(core.check(), 0u);
  // And so the blocks are used again.
  EXPECT_EQ(span_of(core, other.allocate(kSize)), span_of(core, reusable[0]));
  EXPECT_EQ(core.check(), 0u);
}

// Listing 3 leaves such spans floating for ever, since nobody frees a block of them again.
FRESH_TEST(ScallocFrontEnd, TheEndOfAThreadGivesItsEmptyHotSpansBack) {
  Core& core = start_core();
  User user(core);
  for (u32 c = 1; c < kClasses; ++c) user.deallocate(user.allocate(block_bytes(c)));
  user.end();
  const u32 taken = core.arena().taken();
  EXPECT_EQ(taken, kClasses - 1);
  u32 pooled = 0;
  core.pool().for_each([&](const Span*) { ++pooled; });
  EXPECT_EQ(pooled, taken);
  EXPECT_EQ(core.check(), 0u);
}

FRESH_TEST(ScallocFrontEnd, ANewThreadGetsTheRecordWithANewIdentity) {
  Core& core = start_core();
  User user(core);
  void* block = user.allocate(64);
  Lab* lab = user.lab;
  const Owner before = lab->owner.load(relaxed);
  user.end();
  User next(core);
  EXPECT_EQ(next.lab, lab);
  EXPECT_NE(lab->owner.load(relaxed), before);
  EXPECT_EQ(lab_of(before), lab_of(lab->owner.load(relaxed)));
  // The span is an orphan though the LAB lives: the owner words differ.
  EXPECT_TRUE(FrontEnd::is_orphan(span_of(core, block)->owner.load(relaxed)));
  next.deallocate(block);
  EXPECT_EQ(state_of(core, block), State::free);
  EXPECT_EQ(core.check(), 0u);
}

// The paper's 16 bits wrap; here a record that has no identity left is not used again.
FRESH_TEST(ScallocFrontEnd, NoOwnerWordEverComesBack) {
  Core& core = start_core();
  Lab* lab = core.registry().attach(1);
  lab->identity.set(kLastIdentity - 1);
  core.registry().detach(lab);
  EXPECT_EQ(core.registry().attach(1), lab);
  EXPECT_EQ(lab->identity.get(), kLastIdentity);
  core.registry().detach(lab);
  EXPECT_NE(core.registry().attach(1), lab);
}

FRESH_TEST(ScallocFrontEnd, MoreThreadsThanLabsShareOne) {
  Parameters parameters = small_parameters();
  parameters.labs = 2;
  Core& core = start_core(parameters);
  Lab* first = core.registry().attach(1);
  EXPECT_NE(core.registry().attach(2), nullptr);
  EXPECT_EQ(core.registry().attach(3), nullptr);
  Lab* common = core.registry().common();
  void* block = core.allocate(common, 64);
  core.deallocate(common, block);
  block = core.allocate(common, 64);
  core.deallocate(first, block);
  EXPECT_EQ(core.check(), 0u);
}

FRESH_TEST(ScallocFrontEnd, WithoutMemoryForLabsTheCommonOneServes) {
  Core& core = start_core();
  os::fake::set_faults({.nth = 1, .duration = os::fake::Duration::from_then_on, .kinds = os::fake::kCommit});
  EXPECT_EQ(core.registry().attach(1), nullptr);
  os::fake::stop_faults();
  EXPECT_NE(core.registry().attach(1), nullptr);
}

// --- CLAB. ---

FRESH_TEST(ScallocFrontEnd, ThreadsOfOneCoreShareAClab) {
  os::fake::set_processors(2);
  Parameters parameters = small_parameters();
  parameters.lab = LabPolicy::core;
  Core& core = start_core(parameters);
  User one(core, 1);
  User two(core, 2);
  User three(core, 3);
  EXPECT_EQ(one.lab, three.lab);
  EXPECT_NE(one.lab, two.lab);
  std::vector<void*> blocks = one.allocate_many(kBlocks, kSize);
  one.allocate(kSize);
  three.deallocate_all(blocks);  // local frees
  EXPECT_EQ(state_of(core, blocks[0]), State::free);
  void* block = three.allocate(64);
  one.end();
  EXPECT_EQ(state_of(core, block), State::hot);
  Lab* lab = three.lab;
  three.end();
  EXPECT_EQ(lab->owner.load(relaxed), kTerminated);
  EXPECT_EQ(state_of(core, block), State::floating);
  two.deallocate(block);
  EXPECT_EQ(state_of(core, block), State::free);
  EXPECT_EQ(core.check(), 0u);
}

// --- Section 7.7.3's other version. ---

FRESH_TEST(ScallocFrontEnd, ReclaimInAllocationKeepsEmptySpansUntilThen) {
  Parameters parameters = small_parameters();
  parameters.reclaim = ReclaimPolicy::allocation;
  User user(start_core(parameters));
  const std::vector<void*> blocks = user.allocate_many(3 * kBlocks, kSize);
  user.allocate(kSize);
  user.deallocate_all(blocks);
  for (const u32 i : {0u, kBlocks, 2 * kBlocks}) EXPECT_EQ(state_of(user.core, blocks[i]), State::reusable);
  EXPECT_EQ(user.core.check(), 0u);
  user.allocate_many(kBlocks, kSize);  // the slow path comes by
  u32 free = 0;
  user.core.pool().for_each([&](const Span*) { ++free; });
  EXPECT_EQ(free, 2u);
  EXPECT_EQ(user.core.check(), 0u);
  user.end();
  EXPECT_EQ(user.core.check(), 0u);
}

// --- Aligned blocks. ---

FRESH_TEST(ScallocFrontEnd, AlignedBlocksUpToTheHeaderNeedNoRoom) {
  User user(start_core());
  for (usize alignment = 32; alignment <= 256; alignment *= 2) {
    for (usize size = 1; size < 5000; size = size * 3 + 1) {
      void* block = user.core.allocate_aligned(user.lab, size, alignment);
      EXPECT_EQ(reinterpret_cast<uptr>(block) % alignment, 0u);
      EXPECT_EQ(span_of(user.core, block)->interior.load(relaxed), 0u);
      EXPECT_GE(user.core.usable_size(block), size);
      user.deallocate(block);
    }
  }
  EXPECT_EQ(user.core.check(), 0u);
}

FRESH_TEST(ScallocFrontEnd, FreesFindTheStartOfAnAlignedBlock) {
  User user(start_core());
  std::vector<void*> blocks;
  for (usize alignment = 512; alignment <= 512 * 1024; alignment *= 2) {
    for (usize size = 1; size < 5000; size = size * 7 + 1) {
      void* block = user.core.allocate_aligned(user.lab, size, alignment);
      EXPECT_EQ(reinterpret_cast<uptr>(block) % alignment, 0u);
      EXPECT_GE(user.core.usable_size(block), size);
      blocks.push_back(block);
    }
  }
  user.deallocate_all(blocks);
  EXPECT_EQ(user.core.check(), 0u);
  EXPECT_EQ(user.core.fragmentation_by_walk() % 16, 0u);
}

// --- Section 4. ---

FRESH_TEST(ScallocFrontEnd, EquationsOneToFourGiveWhatAWalkFinds) {
  Parameters parameters = small_parameters();
  parameters.account = true;
  Core& core = start_core(parameters);
  User user(core, 1);
  User other(core, 2);
  std::vector<void*> live;
  u64 random = 1;
  for (int i = 0; i < 20'000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const usize size = 1 + (random >> 33) % (random >> 63 != 0 ? 300 : 20'000);
    User& who = (random >> 20) % 3 == 0 ? other : user;
    if (live.empty() || (random >> 40) % 100 < (i < 12'000 ? 55 : 20)) {
      live.push_back(who.allocate(size));
    } else {
      std::swap(live[(random >> 8) % live.size()], live.back());
      who.deallocate(live.back());
      live.pop_back();
    }
    if (i % 100 != 0) continue;
    ASSERT_EQ(core.front_end().fragmentation(), core.fragmentation_by_walk()) << i;
  }
  EXPECT_EQ(core.check(), 0u);
  user.deallocate_all(live);
  user.end();
  other.end();
  EXPECT_EQ(core.front_end().fragmentation(), 0u);
  EXPECT_EQ(core.check(), 0u);
}

// --- Exhaustion. ---

FRESH_TEST(ScallocFrontEnd, AFullArenaIsNoMemoryAndNoMore) {
  Parameters parameters = small_parameters();
  parameters.arena = usize{16} << 20;  // 8 virtual spans
  User user(start_core(parameters));
  std::vector<void*> blocks;
  while (void* block = user.allocate(kLargestBlock)) blocks.push_back(block);
  EXPECT_EQ(blocks.size(), 8u);
  EXPECT_EQ(user.allocate(16), nullptr);
  user.deallocate(blocks[3]);
  EXPECT_NE(user.allocate(16), nullptr);
  EXPECT_EQ(user.core.check(), 0u);
}

}  // namespace
}  // namespace coffer::scalloc
