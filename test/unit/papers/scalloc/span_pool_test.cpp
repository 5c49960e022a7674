// SPDX-License-Identifier: MIT
#include "papers/scalloc/span_pool.hpp"

#include <cstring>

#include "os/fake/fake.hpp"
#include "papers/scalloc/ground.hpp"

namespace coffer::scalloc {
namespace {

struct Pool {
  explicit Pool(const Parameters& parameters = small_parameters()) {
    EXPECT_TRUE(arena.start(parameters));
    pool.start(&arena, parameters);
  }
  // A span of the class, touched from end to end.
  Span* get(u32 thread, usize size) {
    Span* span = pool.get(thread, class_of(size));
    if (span != nullptr) {
      std::memset(reinterpret_cast<char*>(span) + sizeof(Span), 1,
                  real_span_bytes(real_span_index(class_of(size))) - sizeof(Span));
    }
    return span;
  }
  Arena arena;
  SpanPool pool;
};

Pool& start_pool(const Parameters& parameters = small_parameters()) {
  static Pool pool(parameters);
  return pool;
}

// Listing 1: the own stack, newest first.
FRESH_TEST(ScallocSpanPool, OwnStackFirst) {
  Pool& pool = start_pool();
  Span* mine = pool.get(1, 64);
  Span* mine_too = pool.get(1, 64);
  Span* others = pool.get(2, 64);
  pool.pool.put(1, mine);
  pool.pool.put(1, mine_too);
  pool.pool.put(2, others);
  EXPECT_EQ(pool.get(2, 64), others);
  EXPECT_EQ(pool.get(1, 64), mine_too);
  EXPECT_EQ(pool.get(5, 64), mine);  // 5 modulo 4 stacks
}

// Lines 34 to 38.
FRESH_TEST(ScallocSpanPool, ThenAnySpanSmallSizesFirstThenTheArena) {
  Pool& pool = start_pool();
  Span* large = pool.get(1, 4096);
  Span* small = pool.get(1, 64);
  pool.pool.put(3, large);
  pool.pool.put(2, small);
  EXPECT_EQ(pool.get(1, 128), small);
  EXPECT_EQ(pool.get(1, 128), large);
  EXPECT_EQ(large->real_span.get(), 0u);
  EXPECT_EQ(pool.arena.taken(), 2u);
  EXPECT_EQ(pool.arena.number(pool.get(1, 128)), 3u);
}

// The class changes, the real-span size does not: one stack for all of them.
FRESH_TEST(ScallocSpanPool, ClassesOfOneRealSpanSizeShareStacks) {
  Pool& pool = start_pool();
  Span* span = pool.get(1, 16);
  pool.pool.put(1, span);
  EXPECT_EQ(pool.get(1, 256), span);
}

FRESH_TEST(ScallocSpanPool, SpansAboveTheThresholdGiveTheirPagesBackButTheFirst) {
  Pool& pool = start_pool();
  Span* small = pool.get(1, 64);
  Span* large = pool.get(1, 512);
  pool.pool.put(1, small);
  pool.pool.put(1, large);
  EXPECT_EQ(resident_pages(small, 32 * 1024), 8u);  // 32 KiB: not strictly above
  EXPECT_EQ(resident_pages(large, 64 * 1024), 1u);
  // The compaction call takes the small ones, too; and once is enough.
  EXPECT_TRUE(pool.pool.trim());
  EXPECT_EQ(resident_pages(small, 32 * 1024), 1u);
  EXPECT_FALSE(pool.pool.trim());
  EXPECT_EQ(pool.get(1, 64), small);
  EXPECT_EQ(pool.get(1, 512), large);
}

FRESH_TEST(ScallocSpanPool, ThresholdAndSwitchAreParameters) {
  Parameters parameters = small_parameters();
  parameters.madvise_threshold = 4096;
  Pool& pool = start_pool(parameters);
  Span* small = pool.get(1, 64);
  pool.pool.put(1, small);
  EXPECT_EQ(resident_pages(small, 32 * 1024), 1u);
}

FRESH_TEST(ScallocSpanPool, WithoutMadviseNothingGoesBack) {
  Parameters parameters = small_parameters();
  parameters.madvise = false;
  Pool& pool = start_pool(parameters);
  Span* large = pool.get(1, 4096);
  pool.pool.put(1, large);
  EXPECT_EQ(resident_pages(large, 256 * 1024), 64u);
}

FRESH_TEST(ScallocSpanPool, OneStackServesAllThreads) {
  Parameters parameters = small_parameters();
  parameters.stacks = 1;
  Pool& pool = start_pool(parameters);
  EXPECT_EQ(pool.pool.stacks(), 1u);
  Span* span = pool.get(1, 64);
  pool.pool.put(1, span);
  EXPECT_EQ(pool.get(7, 64), span);
}

FRESH_TEST(ScallocSpanPool, ASpanThatCannotGrowStaysInThePool) {
  Pool& pool = start_pool();
  Span* span = pool.get(1, 64);
  pool.pool.put(1, span);
  os::fake::set_faults({.nth = 1, .duration = os::fake::Duration::from_then_on, .kinds = os::fake::kCommit});
  EXPECT_EQ(pool.get(1, 4096), nullptr);
  os::fake::stop_faults();
  EXPECT_EQ(pool.get(1, 64), span);
  EXPECT_EQ(pool.arena.taken(), 1u);
}

}  // namespace
}  // namespace coffer::scalloc
