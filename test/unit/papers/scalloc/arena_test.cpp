// SPDX-License-Identifier: MIT
#include "papers/scalloc/arena.hpp"

#include <sys/resource.h>

#include <cstring>

#include "coffer/coffer.h"
#include "os/fake/fake.hpp"
#include "os/os.hpp"
#include "papers/common/gauge.hpp"
#include "papers/scalloc/ground.hpp"

namespace coffer::scalloc {
namespace {

FRESH_TEST(ScallocArena, IsAlignedToItsSizeForTheXorTest) {
  Arena arena;
  EXPECT_FALSE(arena.contains(0));
  EXPECT_FALSE(arena.contains(~uptr{0}));
  ASSERT_TRUE(arena.start(small_parameters()));
  EXPECT_EQ(arena.bytes(), usize{1} << 32);
  EXPECT_EQ(arena.base() % arena.bytes(), 0u);
  EXPECT_TRUE(arena.contains(arena.base()));
  EXPECT_TRUE(arena.contains(arena.base() + arena.bytes() - 1));
  EXPECT_FALSE(arena.contains(arena.base() - 1));
  EXPECT_FALSE(arena.contains(arena.base() + arena.bytes()));
  EXPECT_FALSE(arena.contains(0));
}

FRESH_TEST(ScallocArena, TakesLessWhereTheKernelOrALimitWantsIt) {
  os::fake::set_address_space(usize{1} << 30);
  Arena arena;
  ASSERT_TRUE(arena.start(small_parameters()));
  // All of it leaves nothing for the map of its spans.
  EXPECT_EQ(arena.bytes(), usize{1} << 29);
  os::fake::set_address_space(0);
  os::fake::set_faults({.nth = 1, .kinds = os::fake::kReserve});
  Arena second;
  ASSERT_TRUE(second.start(small_parameters()));
  EXPECT_EQ(second.bytes(), usize{1} << 31);
  os::fake::set_faults({.nth = 1, .duration = os::fake::Duration::from_then_on, .kinds = os::fake::kReserve});
  Arena third;
  EXPECT_FALSE(third.start(small_parameters()));
}

FRESH_TEST(ScallocArena, IsEmptyWhereALimitHasNoRoomForAFewSpans) {
  os::fake::set_address_space(os::fake::reserved_bytes() + (usize{7} << 20));
  Arena arena;
  ASSERT_TRUE(arena.start(small_parameters()));
  EXPECT_EQ(arena.bytes(), 0u);
  EXPECT_FALSE(arena.contains(0));
  EXPECT_EQ(arena.allocate_virtual_span(32 * 1024), nullptr);
}

// Of seven megabytes of address space up to four are for records of LABs.
FRESH_TEST(ScallocArena, BlocksHaveMappingsOfTheirOwnThen) {
  os::fake::set_address_space(os::fake::reserved_bytes() + (usize{7} << 20));
  std::vector<void*> blocks;
  while (void* block = coffer_malloc(1000)) blocks.push_back(block);
  EXPECT_GT(blocks.size(), 500u);  // a page each
  for (void* block : blocks) coffer_free(block);
  void* again = coffer_malloc(1000);
  EXPECT_NE(again, nullptr);
  coffer_free(again);
  EXPECT_EQ(coffer_check(), 0u);
}

FRESH_TEST(ScallocArena, HoldsAFewOfTheLargestSpans) {
  Parameters parameters = small_parameters();
  parameters.arena = usize{16} << 20;
  parameters.virtual_span = usize{100} << 20;
  Arena arena;
  ASSERT_TRUE(arena.start(parameters));
  EXPECT_EQ(arena.virtual_span(), usize{128} << 20);
  EXPECT_NE(arena.allocate_virtual_span(32 * 1024), nullptr);
  EXPECT_NE(arena.allocate_virtual_span(32 * 1024), nullptr);
}

FRESH_TEST(ScallocArena, VirtualSpansAreAlignedAndEndInAFault) {
  for (const usize size : {usize{2} << 20, usize{16} << 20}) {
    Parameters parameters = small_parameters();
    parameters.virtual_span = size;
    Arena arena;
    ASSERT_TRUE(arena.start(parameters));
    for (u32 i = 1; i <= 3; ++i) {
      Span* span = arena.allocate_virtual_span(32 * 1024);
      ASSERT_NE(span, nullptr);
      EXPECT_EQ(span->base() % size, 0u);
      EXPECT_EQ(arena.number(span), i);
      EXPECT_EQ(arena.span(i), span);
      EXPECT_EQ(arena.span_around(span->base() + size - 1), span);
      char* bytes = reinterpret_cast<char*>(span);
      std::memset(bytes + sizeof(Span), 1, 32 * 1024 - sizeof(Span));
      EXPECT_TRUE(faults(bytes + 32 * 1024));
      EXPECT_TRUE(faults(bytes + size - 1));
    }
  }
}

FRESH_TEST(ScallocArena, ResizeMovesTheFault) {
  Arena arena;
  ASSERT_TRUE(arena.start(small_parameters()));
  Span* span = arena.allocate_virtual_span(32 * 1024);
  char* bytes = reinterpret_cast<char*>(span);
  ASSERT_TRUE(arena.resize(span, 1 << 20));
  std::memset(bytes + 4096, 7, (1 << 20) - 4096);
  EXPECT_TRUE(faults(bytes + (1 << 20)));
  ASSERT_TRUE(arena.resize(span, 64 * 1024));
  EXPECT_EQ(bytes[64 * 1024 - 1], 7);
  EXPECT_TRUE(faults(bytes + 64 * 1024));
  // What was taken away comes back as zeros.
  ASSERT_TRUE(arena.resize(span, 128 * 1024));
  EXPECT_EQ(bytes[64 * 1024], 0);
}

FRESH_TEST(ScallocArena, AByteIsHeldOrReserved) {
  Arena arena;
  ASSERT_TRUE(arena.start(small_parameters()));
  const papers::Totals& all = papers::totals();
  EXPECT_EQ(all.reserved.now(), arena.bytes());
  Span* span = arena.allocate_virtual_span(32 * 1024);
  for (const usize bytes : {usize{32} << 10, usize{1} << 20, usize{64} << 10}) {
    ASSERT_TRUE(arena.resize(span, bytes));
    EXPECT_EQ(all.held.now(), bytes);
    EXPECT_EQ(all.reserved.now() + all.held.now(), arena.bytes());
  }
}

FRESH_TEST(ScallocArena, ResizeThatFailsChangesNothing) {
  Arena arena;
  ASSERT_TRUE(arena.start(small_parameters()));
  Span* span = arena.allocate_virtual_span(64 * 1024);
  os::fake::set_faults({.nth = 1, .duration = os::fake::Duration::from_then_on});
  EXPECT_FALSE(arena.resize(span, 128 * 1024));
  EXPECT_EQ(span->committed.get(), 64u * 1024);
  EXPECT_TRUE(arena.resize(span, 32 * 1024));  // the rest stays
  EXPECT_EQ(span->committed.get(), 64u * 1024);
  os::fake::stop_faults();
  EXPECT_TRUE(arena.resize(span, 32 * 1024));
  EXPECT_TRUE(faults(reinterpret_cast<char*>(span) + 32 * 1024));
}

FRESH_TEST(ScallocArena, ASpanWithoutMemoryIsTakenNextTime) {
  Arena arena;
  ASSERT_TRUE(arena.start(small_parameters()));
  os::fake::set_faults({.nth = 1, .kinds = os::fake::kCommit});
  EXPECT_EQ(arena.allocate_virtual_span(32 * 1024), nullptr);
  EXPECT_FALSE(arena.is_made(1));
  Span* span = arena.allocate_virtual_span(32 * 1024);
  ASSERT_NE(span, nullptr);
  EXPECT_EQ(arena.number(span), 1u);
  EXPECT_TRUE(arena.is_made(1));
}

FRESH_TEST(ScallocArena, EndsWithNoSpan) {
  Parameters parameters = small_parameters();
  parameters.arena = usize{16} << 20;
  Arena arena;
  ASSERT_TRUE(arena.start(parameters));
  for (int i = 0; i < 8; ++i) EXPECT_NE(arena.allocate_virtual_span(32 * 1024), nullptr);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(arena.allocate_virtual_span(32 * 1024), nullptr);
}

// A sanitizer's own memory is beyond any such limit.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The kernel does not count what is committed inside a reservation that it counted before.
FRESH_TEST(ScallocArena, KeepsToALimitThatIsLoweredLater) {
  Arena arena;
  ASSERT_TRUE(arena.start(Parameters()));
  ASSERT_NE(arena.allocate_virtual_span(config::kMiB), nullptr);
  struct rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = 1024 * config::kMiB;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  usize spans = 0;
  while (spans < 2000 && arena.allocate_virtual_span(config::kMiB) != nullptr) ++spans;
  EXPECT_LT(spans, 1024u);
  limit.rlim_cur = before;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_NE(arena.allocate_virtual_span(config::kMiB), nullptr);
}
#endif

// Beyond what the kernel has mappings for, and where the program asks for it.
FRESH_TEST(ScallocArena, WithoutProtectionSpansAreCommittedWholeInSteps) {
  Parameters parameters = small_parameters();
  parameters.protect = false;
  Arena arena;
  ASSERT_TRUE(arena.start(parameters));
  const u64 before = os::fake::calls_of(os::fake::kCommit);
  for (int i = 0; i < 32; ++i) {
    Span* span = arena.allocate_virtual_span(32 * 1024);
    ASSERT_NE(span, nullptr);
    reinterpret_cast<char*>(span)[(2 << 20) - 1] = 1;
    EXPECT_TRUE(arena.resize(span, 1 << 20));
  }
  EXPECT_EQ(os::fake::calls_of(os::fake::kCommit), before + 1);
}

FRESH_TEST(ScallocArena, ASpanWhoseStepIsRefusedIsCommittedAlone) {
  Parameters parameters = small_parameters();
  parameters.protect = false;
  Arena arena;
  ASSERT_TRUE(arena.start(parameters));
  os::fake::set_faults({.nth = 1, .kinds = os::fake::kCommit});
  for (int i = 0; i < 40; ++i) {
    Span* span = arena.allocate_virtual_span(32 * 1024);
    ASSERT_NE(span, nullptr);
    reinterpret_cast<char*>(span)[(2 << 20) - 1] = 1;
  }
}

// One span that was committed says nothing of those before it: their threads may still be on the way to the kernel.
FRESH_TEST(ScallocArena, ASpanThatWasOvertakenAndRefusedIsCommittedNextTime) {
  static Arena arena;
  static Span* overtakes;
  Parameters parameters = small_parameters();
  parameters.protect = false;
  ASSERT_TRUE(arena.start(parameters));
  os::fake::set_faults({.nth = 2, .duration = os::fake::Duration::from_then_on, .kinds = os::fake::kCommit});
  os::fake::set_at_commit([] {
    os::fake::set_at_commit(nullptr);
    overtakes = arena.allocate_virtual_span(32 * 1024);
  });
  EXPECT_EQ(arena.allocate_virtual_span(32 * 1024), nullptr);
  ASSERT_NE(overtakes, nullptr);
  EXPECT_EQ(arena.number(overtakes), 2u);
  os::fake::stop_faults();
  Span* span = arena.allocate_virtual_span(32 * 1024);
  ASSERT_NE(span, nullptr);
  EXPECT_EQ(arena.number(span), 1u);
  reinterpret_cast<char*>(span)[(2 << 20) - 1] = 1;
}

FRESH_TEST(ScallocArena, SpansBeyondTheKernelsMappingsWork) {
  Parameters parameters = small_parameters();
  parameters.arena = usize{1} << 37;
  Arena arena;
  ASSERT_TRUE(arena.start(parameters));
  for (u32 i = 1; i <= kProtectedSpans + 9000; ++i) {
    Span* span = arena.allocate_virtual_span(32 * 1024);
    ASSERT_NE(span, nullptr) << i;
    ASSERT_EQ(arena.number(span), i);
  }
}

FRESH_TEST(ScallocArena, MadviseKeepsTheFirstPage) {
  Arena arena;
  ASSERT_TRUE(arena.start(small_parameters()));
  Span* span = arena.allocate_virtual_span(64 * 1024);
  span->real_span.set(1);
  char* bytes = reinterpret_cast<char*>(span);
  std::memset(bytes + sizeof(Span), 3, 64 * 1024 - sizeof(Span));
  EXPECT_EQ(resident_pages(bytes, 64 * 1024), 16u);
  EXPECT_TRUE(arena.madvise_span(span));
  EXPECT_EQ(resident_pages(bytes, 64 * 1024), 1u);
  EXPECT_EQ(bytes[4095], 3);
  EXPECT_EQ(bytes[4096], 0);
}

}  // namespace
}  // namespace coffer::scalloc
