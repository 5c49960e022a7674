// SPDX-License-Identifier: MIT
// CIF as a whole, by the prefix API: where blocks lie, whose they are, when superblocks go to the global heap, and the
// options that change it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "coffer/coffer.h"
#include "fresh.hpp"
#include "options.hpp"
#include "os/fake/fake.hpp"
#include "papers/cif/heap.hpp"
#include "papers/common/gauge.hpp"
#include "papers/common/given_back.hpp"
#include "worker.hpp"

namespace coffer::test {
namespace {

using cif::Superblock;

Superblock* superblock_of(void* block) { return papers::superblock_of<Superblock>(papers::word_before(block)); }

std::vector<void*> allocate_many(usize count, usize size) {
  std::vector<void*> blocks(count);
  for (void*& block : blocks) block = coffer_malloc(size);
  return blocks;
}
void free_all(const std::vector<void*>& blocks) {
  for (void* block : blocks) coffer_free(block);
}

std::set<usize> indices(const std::vector<void*>& blocks) {
  std::set<usize> seen;
  for (void* block : blocks) seen.insert(reinterpret_cast<uptr>(block) % kCachePage / kCacheLine);
  return seen;
}

// One heap, so that what belongs to whom does not depend on the processor.
config::Options& one_heap() {
  config::Options& options = changeable_options();
  options.heaps = 1;
  return options;
}

FRESH_TEST(Cif, BlocksOfALineAndMoreStartOnLinesAndReachEveryIndex) {
  for (usize size : {40, 100, 200, 500, 1000}) {
    const std::vector<void*> blocks = allocate_many(256, size);
    for (void* block : blocks) ASSERT_EQ(reinterpret_cast<uptr>(block) % kCacheLine, 0u);
    EXPECT_EQ(indices(blocks).size(), kCacheSets) << size;
    free_all(blocks);
  }
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Cif, FlatArraysWithoutColoursReachFewIndices) {
  config::Options& options = one_heap();
  options.array = cif::ArrayRule::flat;
  options.colours = 1;
  EXPECT_EQ(indices(allocate_many(256, 1000)).size(), 4u);  // 1 KiB apart
  EXPECT_EQ(indices(allocate_many(256, 4000)).size(), 1u);
}

FRESH_TEST(Cif, WithoutAlignmentBlocksStart16BytesIntoALine) {
  one_heap().align = false;
  for (usize size : {40, 100, 5000}) {
    EXPECT_EQ(reinterpret_cast<uptr>(coffer_malloc(size)) % kCacheLine, 16u);
  }
  EXPECT_EQ(reinterpret_cast<uptr>(coffer_aligned_alloc(64, 100)) % 64, 0u);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Cif, AlignmentsToALineCostNothing) {
  EXPECT_EQ(coffer_malloc_usable_size(coffer_aligned_alloc(64, 50)), 56u);
  EXPECT_EQ(coffer_malloc_usable_size(coffer_aligned_alloc(64, 8)), 56u);
}

FRESH_TEST(Cif, ColoursDifferBetweenSuperblocksAndRepeatWithTheSeed) {
  one_heap().seed = 7;
  const std::vector<void*> blocks = allocate_many(64, 30'000);  // a superblock each
  std::set<u32> colours;
  for (void* block : blocks) {
    EXPECT_LT(superblock_of(block)->colour, 16u);
    colours.insert(superblock_of(block)->colour);
  }
  EXPECT_GT(colours.size(), 12u);
}

std::vector<u32> colours_in_child(u32 seed) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  run_fresh([&] {
    one_heap().seed = seed;
    for (void* block : allocate_many(32, 30'000)) {
      const u32 colour = superblock_of(block)->colour;
      EXPECT_EQ(write(ends[1], &colour, sizeof colour), static_cast<ssize_t>(sizeof colour));
    }
  });
  std::vector<u32> colours(32);
  EXPECT_EQ(read(ends[0], colours.data(), 32 * sizeof(u32)), static_cast<ssize_t>(32 * sizeof(u32)));
  close(ends[0]);
  close(ends[1]);
  return colours;
}

TEST(Cif, ProcessesHaveColoursOfTheirOwn) {
  EXPECT_NE(colours_in_child(0), colours_in_child(0));
  EXPECT_EQ(colours_in_child(7), colours_in_child(7));
}

FRESH_TEST(Cif, AForkedChildGoesOnWithOtherColours) {
  one_heap();
  coffer_free(coffer_malloc(1));
  const auto next_colours = [] {
    std::vector<u32> colours;
    for (void* block : allocate_many(32, 30'000)) colours.push_back(superblock_of(block)->colour);
    return colours;
  };
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  const std::vector<u32> mine = next_colours();
  if (child == 0) {
    const bool written = write(ends[1], mine.data(), 32 * sizeof(u32)) == static_cast<ssize_t>(32 * sizeof(u32));
    _exit(written && coffer_check() == 0 ? 0 : 1);
  }
  std::vector<u32> other(32);
  ASSERT_EQ(read(ends[0], other.data(), 32 * sizeof(u32)), static_cast<ssize_t>(32 * sizeof(u32)));
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NE(mine, other);
}

FRESH_TEST(Cif, LargeRequestsAreThoseThatFitNoHalfOfASuperblock) {
  one_heap();
  void* small = coffer_malloc(32 * 1024 - 8);
  void* large = coffer_malloc(32 * 1024 - 7);
  EXPECT_EQ(papers::kind_of(papers::word_before(small)), papers::Kind::superblock);
  EXPECT_EQ(papers::kind_of(papers::word_before(large)), papers::Kind::mapped);
  coffer_free(small);
  coffer_free(large);
}

FRESH_TEST(Cif, AHeapThatIsTooEmptyPassesSuperblocksOn) {
  one_heap();
  std::vector<void*> blocks = allocate_many(20, 30'000);  // 20 superblocks of one block
  cif::Heap* own = superblock_of(blocks[0])->owner.load(relaxed);
  // K = 4 superblocks or a quarter, five, may be free. With the sixth free one is too many, and then of 19 still one.
  for (usize i = 0; i < 6; ++i) {
    coffer_free(blocks[i]);
    EXPECT_EQ(coffer_check(), 0u);
    EXPECT_EQ(own->of(superblock_of(blocks[19])->size_class).held, i < 5 ? 20u : 18u);
  }
  struct coffer_stats stats = {};
  coffer_stats(&stats, sizeof stats);
  EXPECT_EQ(stats.spans, 18u);
  EXPECT_EQ(stats.free_resident, 2u * 64 * 1024);  // in the global heap
  // And serves another class.
  const usize held = papers::totals().held.now();
  coffer_free(coffer_malloc(100));
  EXPECT_EQ(papers::totals().held.now(), held);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Cif, WithReleaseEmptySuperblocksGoBack) {
  config::Options& options = one_heap();
  options.release = true;
  options.k = 0;
  std::vector<void*> blocks = allocate_many(20, 30'000);
  const usize held = papers::totals().held.now();
  free_all(blocks);
  EXPECT_LE(papers::totals().held.now(), held - 19 * 64 * 1024);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Cif, WithReleaseWhatEmptiesInTheGlobalHeapGoesBackAlone) {
  config::Options& options = one_heap();
  options.release = true;
  options.k = 0;
  const std::vector<void*> blocks = allocate_many(30, 16'000);  // three a superblock
  for (usize i = 0; i < 30; ++i) {
    if (i % 3 != 0) coffer_free(blocks[i]);  // most superblocks go to the global heap with one block in use
  }
  usize held = papers::totals().held.now();
  for (usize i : {15, 27, 24, 21, 18, 12, 9, 6, 3, 0}) {
    coffer_free(blocks[i]);
    ASSERT_GE(papers::totals().held.now() + 64 * 1024, held) << i;
    held = papers::totals().held.now();
    EXPECT_EQ(coffer_check(), 0u);
  }
  EXPECT_EQ(held % (64 * 1024), 0u);
}

FRESH_TEST(Cif, TrimGivesBackWhatIsEmpty) {
  one_heap();
  free_all(allocate_many(40, 30'000));
  EXPECT_EQ(coffer_malloc_trim(0), 1);
  EXPECT_EQ(papers::totals().held.now(), 0u);
  EXPECT_EQ(coffer_malloc_trim(0), 0);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Cif, EmptySuperblocksOfAnotherClassServeWhereMemoryIsExhausted) {
  one_heap();
  free_all(allocate_many(8, 30'000));  // all that was mapped; four stay with the heap
  os::fake::set_faults({.duration = os::fake::Duration::from_then_on, .kinds = os::fake::kReserve, .one_in = 1});
  const std::vector<void*> blocks = allocate_many(24, 16'000);  // three a superblock
  for (void* block : blocks) EXPECT_NE(block, nullptr);
  errno = 0;
  EXPECT_EQ(coffer_malloc(16'000), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  free_all(blocks);
  EXPECT_NE(coffer_malloc(16'000), nullptr);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Cif, ThereIsMemoryWhileAnotherThreadGivesItBack) {
  one_heap().k = 0;
  expect_memory_while_another_gives_back();
}

FRESH_TEST(Cif, RemoteFreesGoToTheSuperblocksOwner) {
  os::fake::set_current_processor(3);
  const std::vector<void*> first = allocate_many(100, 500);
  os::fake::set_current_processor(77);
  const std::vector<void*> second = allocate_many(100, 500);
  EXPECT_NE(superblock_of(first[0])->owner.load(relaxed), superblock_of(second[0])->owner.load(relaxed));
  // The block comes back to whoever allocates from its superblock, not to who freed it.
  coffer_free(first[50]);
  EXPECT_NE(coffer_malloc(500), first[50]);
  os::fake::set_current_processor(3);
  EXPECT_EQ(coffer_malloc(500), first[50]);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Cif, ALockAMallocAndALockAFree) {
  one_heap();
  void* warm = coffer_malloc(100);
  cif::Heap* own = superblock_of(warm)->owner.load(relaxed);
  const u64 before = own->lock.taken();
  for (int i = 0; i < 1000; ++i) coffer_free(coffer_malloc(100));
  EXPECT_EQ(own->lock.taken() - before, 2000u);
}

FRESH_TEST(Cif, MoreProcessorsThanHeapsShareThem) {
  changeable_options().heaps = 2;
  std::set<cif::Heap*> heaps;
  for (u32 processor = 0; processor < 9; ++processor) {
    os::fake::set_current_processor(processor);
    heaps.insert(superblock_of(coffer_malloc(100))->owner.load(relaxed));
  }
  EXPECT_EQ(heaps.size(), 2u);
  EXPECT_EQ(coffer_check(), 0u);
}

// The first start reserves records for fewer heaps than it wants, and fails then; the second goes on with these.
FRESH_TEST(Cif, AStartThatIsTriedAgainKeepsToItsRecords) {
  os::fake::set_address_space(os::fake::reserved_bytes() + (usize{1} << 20));
  os::fake::set_faults({.nth = 1, .kinds = os::fake::kCommit});
  EXPECT_EQ(coffer_malloc(100), nullptr);
  os::fake::set_address_space(0);
  const auto a_block_each = [] {
    for (u32 processor = 0; processor < 1000; ++processor) {
      os::fake::set_current_processor(processor);
      void* block = coffer_malloc(100);
      ASSERT_NE(block, nullptr);
      coffer_free(block);
    }
  };
  a_block_each();
  const u64 commits = os::fake::calls_of(os::fake::kCommit);
  a_block_each();
  EXPECT_EQ(os::fake::calls_of(os::fake::kCommit), commits);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Cif, AHeapThatCannotBeMadeLeavesTheOthers) {
  os::fake::set_current_processor(0);
  void* first = coffer_malloc(100);
  os::fake::set_faults({.duration = os::fake::Duration::from_then_on, .kinds = os::fake::kCommit, .one_in = 1});
  os::fake::set_current_processor(1);
  void* second = coffer_malloc(100);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(superblock_of(first)->owner.load(relaxed), superblock_of(second)->owner.load(relaxed));
  os::fake::stop_faults();
  void* third = coffer_malloc(100);  // tried again
  EXPECT_NE(superblock_of(first)->owner.load(relaxed), superblock_of(third)->owner.load(relaxed));
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(Cif, ThreadsThatRoamOverHeapsKeepTheInvariants) {
  config::Options& options = changeable_options();
  options.k = 1;
  options.superblock = 16 * 1024;  // many of them come and go
  os::fake::set_current_processor(os::fake::kRoaming);
  std::vector<void*> shared(64);
  std::mutex mutex;
  run_together(4, [&](unsigned thread) {
    u64 random = thread;
    std::vector<void*> own(200);
    for (int step = 0; step < 20'000; ++step) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const usize size = 1 + (random >> 40) % ((random >> 60) == 0 ? 7000 : 300);
      void*& slot = own[(random >> 33) % own.size()];
      coffer_free(slot);
      slot = coffer_malloc(size);
      ASSERT_NE(slot, nullptr);
      std::memset(slot, static_cast<int>(thread), size);
      if (step % 8 == 0) {
        const std::lock_guard lock(mutex);
        std::swap(slot, shared[step / 8 % shared.size()]);
      }
    }
    free_all(own);
  });
  EXPECT_EQ(coffer_check(), 0u);
  free_all(shared);
  EXPECT_EQ(coffer_check(), 0u);
  struct coffer_stats stats = {};
  coffer_stats(&stats, sizeof stats);
  EXPECT_EQ(stats.live, 0u);
}

FRESH_TEST(Cif, OtherClassesAndLinesWork) {
  config::Options& options = one_heap();
  options.classes = cif::ClassRule::odd;
  options.line = 16;
  options.page = 2048;
  for (usize size = 0; size < 40'000; size += 97) {
    void* block = coffer_malloc(size);
    ASSERT_GE(coffer_malloc_usable_size(block), size);
    std::memset(block, 1, coffer_malloc_usable_size(block));
    if (size % 2 == 0) coffer_free(block);
  }
  EXPECT_EQ(coffer_check(), 0u);
}

}  // namespace
}  // namespace coffer::test
