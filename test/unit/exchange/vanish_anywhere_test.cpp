// SPDX-License-Identifier: MIT
// A thread vanishes at any instruction. An operation runs one machine instruction at a time (the processor's trap
// flag); after each that changed something two fork children are made that have no such thread, also while it holds
// locks, for fork waits for none. One has a thread without a heap; in the other the heap that the operation works upon,
// if it is another thread's, lives on. They must come to terms with what they find: nothing wrong in the metadata, and
// memory that can be used.
#if defined(__x86_64__)
#include <gtest/gtest.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstring>
#include <new>

#include "exchange/registry_record.hpp"
#include "heaps.hpp"
#include "large/large.hpp"
#include "mixed/mixed.hpp"
#include "pool/slice_pool.hpp"
#include "span/purge_span.hpp"
#include "support/build.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr unsigned long long kTrapFlag = 0x100;
constexpr usize kWideSize = 6656;  // eight slices, blocks that straddle pages
constexpr u32 kBlocks = 120;
using Taken = std::array<void*, kBlocks>;

Taken g_taken;
usize g_size;                      // of the blocks that the operation works on
Heap* g_survivor;                  // the other thread's heap; the second child has that thread
u32 g_steps, g_forks, g_failures;  // counted in the handler
u32 g_locked;                      // forks while it held a lock

// What children find, but for the blocks themselves: a child is made where this has changed.
struct Seen {
  Span records[4 * kSlicesPerChunk];
  Chunk chunks[4];
  Group group;
  char arena[sizeof(Arena)];
  char tables[kSlicesPerChunk * kUnitMapBytes];
  Heap heaps[4];
  char registry[sizeof(SpinLock)];
  u32 heap_counts[2], heap_uses[16];
  char pool[sizeof(PartialPool)];
  char mixed[sizeof(MixedPool)];
  char counters[sizeof(Counters)];
};
Seen g_seen;

bool differs(void* seen, const void* now, usize bytes) {
  if (std::memcmp(seen, now, bytes) == 0) return false;
  std::memcpy(seen, now, bytes);
  return true;
}

bool has_changed() {
  const Arena& arena = g_arenas.arenas[0];
  bool changed = differs(g_seen.records, arena.spans, sizeof g_seen.records);
  changed |= differs(g_seen.chunks, arena.chunks, sizeof g_seen.chunks);
  changed |= differs(&g_seen.group, arena.groups, sizeof g_seen.group);
  changed |= differs(g_seen.arena, &arena, sizeof g_seen.arena);
  if (arena.unit_maps_end.load(relaxed) != 0) changed |= differs(g_seen.tables, arena.unit_maps, sizeof g_seen.tables);
  for (u32 i = fallback_heap_used() ? 0 : 1; i < heaps_ever() && i < 4; ++i) {
    changed |= differs(&g_seen.heaps[i], heap_by_index(i), sizeof(Heap));
  }
  changed |= differs(g_seen.registry, &registry_lock(), sizeof g_seen.registry);
  for (u32 i = 1; i < heaps_ever() && i < 16; ++i) {
    const u32 use = heap_by_index(i)->attached.load(relaxed);
    changed |= differs(&g_seen.heap_uses[i], &use, sizeof use);
  }
  changed |= differs(g_seen.pool, &g_partial_pool, sizeof g_seen.pool);
  changed |= differs(g_seen.mixed, &g_mixed_pool, sizeof g_seen.mixed);
  changed |= differs(g_seen.counters, &counters(), sizeof g_seen.counters);
  const u32 heaps[] = {heaps_ever(), attached_heaps()};
  return differs(g_seen.heap_counts, heaps, sizeof heaps) || changed;
}

// The thread that forks is the one that vanishes, and what it has locked it would go on with in the child: so the locks
// get another holder while it forks.
template <class Object>
u32 change_holder(Object& object, uptr from, uptr to) {
  u32 changed = 0;
  char* const bytes = reinterpret_cast<char*>(&object);
  for (usize i = 0; i + sizeof from <= sizeof object; i += sizeof from) {
    uptr word;
    std::memcpy(&word, bytes + i, sizeof word);
    if (word != from) continue;
    std::memcpy(bytes + i, &to, sizeof to);
    ++changed;
  }
  return changed;
}
u32 change_holders(uptr from, uptr to) {
  return change_holder(registry_lock(), from, to) + change_holder(g_partial_pool, from, to) +
         change_holder(g_mixed_pool, from, to) + change_holder(g_arenas, from, to) +
         change_holder(g_registry.fallback, from, to);
}

// Blocks that overlap would lose their mark.
bool can_work(usize size) {
  static Taken blocks;
  for (usize i = 0; i < kBlocks; ++i) {
    blocks[i] = take(size);
    if (blocks[i] == nullptr) return false;
    std::memset(blocks[i], static_cast<int>(i), size);
  }
  for (usize i = 0; i < kBlocks; ++i) {
    const auto* bytes = static_cast<const unsigned char*>(blocks[i]);
    if (bytes[0] != i || bytes[size - 1] != i) return false;
    give(blocks[i]);
  }
  return true;
}

[[noreturn]] void live_without() {
  alarm(kChildSeconds);
  settle_fork();
  if (check_everything() != 0) _exit(1);
  if (!can_work(g_size) || !can_work(kSize)) _exit(2);
  Allocator::trim(0);
  _exit(check_everything() != 0 ? 3 : 0);
}

void on_step(int, siginfo_t*, void* context) {
  ++g_steps;
  if (g_failures > 3 || !has_changed()) return;
  const int saved = errno;
  Heap* const own = t_heap;
  static char other;
  const uptr self = reinterpret_cast<uptr>(&t_lock_identity), vanished = reinterpret_cast<uptr>(&other);
  const u32 locks = change_holders(self, vanished);
  if (locks != 0) ++g_locked;
  for (Heap* heap : {&g_null_heap, g_survivor}) {
    // Under locks, where places are many and each is one store: by turns.
    if (locks != 0 && (heap == g_survivor) == (g_locked % 2 == 0)) continue;
    t_heap = heap;  // the child's only thread is not the one that had the heap
    const pid_t child = fork();
    if (child == 0) live_without();
    ++g_forks;
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      ++g_failures;
      const auto* registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
      std::fprintf(stderr, "step %u at %#llx, %s, %u locks: status %#x\n", g_steps, registers[REG_RIP],
                   heap == g_survivor ? "the other heap lives on" : "no heap", locks, static_cast<unsigned>(status));
    }
  }
  t_heap = own;
  change_holders(vanished, self);
  errno = saved;
}

// `operation` must not call the C library's malloc.
template <class Operation>
void vanish_in(Operation&& operation) {
  g_steps = g_forks = g_failures = g_locked = 0;
  struct sigaction action = {};
  action.sa_sigaction = &on_step;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGTRAP, &action, nullptr), 0);
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | kTrapFlag);
  operation();
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~kTrapFlag);
  EXPECT_EQ(g_failures, 0u);
  EXPECT_GT(g_forks, 10u) << g_steps << " steps";
  std::printf("%u instructions, %u children, %u places under a lock\n", g_steps, g_forks, g_locked);
  EXPECT_EQ(check_everything(), 0u) << "the parent goes on";
}

void take_all(u32 from = 0, u32 to = kBlocks) {
  for (u32 i = from; i < to; ++i) g_taken[i] = take(g_size);
}
void give_all(u32 from = 0, u32 to = kBlocks) {
  for (u32 i = from; i < to; ++i) give(g_taken[i]);
}

// The parent's other thread keeps the process one with several heaps.
struct World {
  Worker other;
  explicit World(usize size, usize slack = 0) {
    g_size = size;
    start_heaps(slack, usize{64} << 20);
    other.run([] {
      give(take());
      g_survivor = t_heap;
    });
    own_heap();
  }
};

FRESH_TEST(VanishAnywhere, WhileASpanEnds) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kWideSize);
  take_all(0, 60);
  give_all(0, 38);
  // The first span is reusable by now; its last block ends it.
  vanish_in([] { give_all(38, 60); });
}

FRESH_TEST(VanishAnywhere, WhileSpansAreMade) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kWideSize);
  vanish_in([] { take_all(0, 45); });
}

// Blocks of another thread, one after the other and in both directions between spans, so that chains open and close,
// spans are claimed, mailed and taken.
FRESH_TEST(VanishAnywhere, WhileBlocksOfOthersAreFreed) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kWideSize);
  world.other.run([] { take_all(0, 100); });
  vanish_in([] {
    for (u32 i = 0; i < 39; ++i) {
      give(g_taken[i]);
      give(g_taken[39 + i]);
    }
    close_chains(t_heap);
  });
}

FRESH_TEST(VanishAnywhere, WhileReusableSpansAreHandedOn) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kSize);
  take_all();
  vanish_in([] {
    for (u32 i = 0; i < kBlocks; i += 2) give(g_taken[i]);
    take_all(0, 20);
    Allocator::trim(0);
  });
}

FRESH_TEST(VanishAnywhere, WhileALargeBlockGrows) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kWideSize);
  vanish_in([] {
    void* block = Allocator::allocate(200'000);
    block = Allocator::reallocate(block, 700'000);
    block = Allocator::reallocate(block, 100'000);
    give(block);
  });
}

FRESH_TEST(VanishAnywhere, WhileChunksComeAndGo) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kWideSize);
  changeable_options().reclaimer = false;  // its start blocks all signals, and the step then ends the process
  vanish_in([] {
    void* block = Allocator::allocate(3 * kChunkBytes);
    block = Allocator::reallocate(block, 5 * kChunkBytes);
    block = Allocator::reallocate(block, 2 * kChunkBytes);
    give(block);
    purge_free(kChunkBytes);
    take_all(0, 12);
    give_all(0, 12);
    purge_free(~usize{0} / 2);
  });
}

// So many new slices at each look that a heap which does nothing between two of them is idle.
constexpr u32 kManySlices = 1000;

// Its mail, its reusable and its hot spans are placed and adopted.
FRESH_TEST(VanishAnywhere, WhileAnIdleHeapIsStolenFrom) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kWideSize, usize{1} << 20);
  world.other.run([] {
    take_all();
    for (u32 i = 0; i < kBlocks; i += 2) give(g_taken[i]);
  });
  for (u32 i = 1; i < 39; i += 2) give(g_taken[i]);
  close_chains(t_heap);
  ASSERT_NE(g_survivor->mailbox.load(relaxed), 0u);
  ASSERT_NE(g_survivor->slack.get(), 0u);
  const usize held = held_by(g_survivor);
  steal_from_idle_heaps(t_heap, kManySlices);
  ASSERT_EQ(held_by(g_survivor), held) << "it is not idle before the next look";
  vanish_in([] {
    steal_from_idle_heaps(t_heap, kManySlices);
    take_all(0, 60);
  });
  EXPECT_LT(held_by(g_survivor), held - 2 * kSliceBytes);
}

// Its floating spans are claimed, mailed, and placed at once.
FRESH_TEST(VanishAnywhere, WhileBlocksOfAnEndedThreadAreFreed) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kWideSize);
  {
    Worker third;
    third.run([] { take_all(0, 100); });
  }
  Heap* ended = owner_of(span_of(g_taken[0]));
  ASSERT_EQ(ended->attached.load(relaxed), 0u);
  vanish_in([] {
    for (u32 i = 0; i < 78; ++i) give(g_taken[i]);
    close_chains(t_heap);
  });
  EXPECT_EQ(ended->mailbox.load(relaxed), 0u);
  EXPECT_NE(ended->slack.get(), 0u);
}

FRESH_TEST(VanishAnywhere, WhileBlocksOfTheFallbackHeapAreFreed) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kWideSize);
  {
    const FallbackHeap fallback;
    Heap* const own = t_heap;
    t_heap = fallback.get();
    take_all(0, 100);
    t_heap = own;
  }
  vanish_in([] {
    for (u32 i = 0; i < 78; ++i) give(g_taken[i]);
    close_chains(t_heap);
  });
}

// Spans are listed, looked at for idle pages, and listed again; or adopted.
FRESH_TEST(VanishAnywhere, WhileTheListedSpansAreLookedAt) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kWideSize);
  world.other.run([] {
    take_all(0, 100);
    for (u32 i = 0; i < 80; ++i) {
      if (i % 4 != 0) give(g_taken[i]);
    }
    empty_own_heap();
  });
  ASSERT_GE(listed_spans().size(), 2u);
  vanish_in([] {
    purge_all_spans();
    take_all(0, 30);
  });
}

// A span of the thread and a listed one become mixed; their holes are used, and the last block ends one.
FRESH_TEST(VanishAnywhere, WhileSpansBecomeMixed) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kWideSize, usize{1} << 20);
  take_all(0, 60);
  world.other.run([] {
    take_all(60, kBlocks);
    for (u32 i = 60; i < kBlocks; ++i) {
      if (i % 4 != 0) give(g_taken[i]);
    }
    empty_own_heap();
  });
  for (u32 i = 0; i < 39; ++i) {
    if (i % 4 != 0) give(g_taken[i]);
  }
  ASSERT_EQ(ring_length(t_heap, compute_class(kWideSize)), 1u);
  ASSERT_GE(listed_spans().size(), 1u);
  changeable_options().mixed = config::MixedPolicy::always;
  Span* const own = span_of(g_taken[0]);
  Span* const listed = span_of(g_taken[60]);
  constexpr u32 kHoles = 36;
  static Taken holes;
  vanish_in([] {
    for (u32 i = 0; i < kHoles; ++i) holes[i] = take(5000);
    for (u32 i = 0; i < kHoles; ++i) give(holes[i]);
    for (u32 i = 0; i < 39; i += 4) give(g_taken[i]);
  });
  EXPECT_FALSE(is_mixed(own)) << "its last block was freed";
  EXPECT_TRUE(is_mixed(listed));
}

// Heaps for threads, with a record that waits and with new ones, whose memory is made writable.
FRESH_TEST(VanishAnywhere, WhileHeapsAreAttached) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kSize);
  {
    Worker third;
    third.run([] { give(take()); });
  }
  Heap* const own = t_heap;
  vanish_in([] {
    for (u32 i = 0; i < 12; ++i) {
      t_heap = &g_null_heap;
      own_heap();
    }
  });
  t_heap = own;
}

// Its user vanishes inside it, which its lock says.
FRESH_TEST(VanishAnywhere, WhileTheFallbackHeapServes) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kWideSize);
  alignas(FallbackHeap) static char memory[sizeof(FallbackHeap)];
  Heap* fallback = nullptr;
  world.other.run([&] { fallback = (new (memory) FallbackHeap)->get(); });
  Heap* const own = t_heap;
  t_heap = fallback;
  vanish_in([] {
    take_all(0, 30);
    give_all(0, 30);
  });
  t_heap = own;
  world.other.run([] { reinterpret_cast<FallbackHeap*>(memory)->~FallbackHeap(); });
}

// A chunk of another group, for which records are made writable, and one in the middle of two.
FRESH_TEST(VanishAnywhere, WhileTheFrontierMoves) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kSize);
  vanish_in([] {
    void* block = Allocator::allocate(60 * kChunkBytes);
    void* over = Allocator::allocate(10 * kChunkBytes);
    give(block);
    give(over);
  });
}

FRESH_TEST(VanishAnywhere, WhileItEmptiesItsOwnHeap) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kSize, usize{1} << 20);
  take_all();
  for (u32 i = 0; i < 70; i += 3) give(g_taken[i]);
  for (u32 i = 0; i < 3; ++i) give(take(kWideSize));
  vanish_in([] { empty_heap(t_heap); });
}

// The one that lives on is the thread whose heap was seized.
FRESH_TEST(VanishAnywhere, WhileItEmptiesAnothersHeap) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kSize, usize{1} << 20);
  world.other.run([] {
    take_all();
    for (u32 i = 0; i < 70; i += 3) give(g_taken[i]);
    for (u32 i = 0; i < 3; ++i) give(take(kWideSize));
  });
  vanish_in([] { EXPECT_EQ(seize(&g_survivor, 1, empty_heap), 1u); });
  EXPECT_EQ(g_survivor->slack.get(), 0u);
}

// Of a heap in the midst of a fast path.
FRESH_TEST(VanishAnywhere, WhileItPlacesAnothersMail) {
  if (kSanitizer) GTEST_SKIP() << "the sanitizer's own code would be stepped through";
  World world(kWideSize, usize{1} << 20);
  world.other.run([] { take_all(); });
  for (u32 i = 0; i < kBlocks - 40; ++i) give(g_taken[i]);
  close_chains(t_heap);
  ASSERT_NE(g_survivor->mailbox.load(relaxed), 0u);
  g_survivor->inside.store(kPopping, relaxed);
  vanish_in([] { EXPECT_EQ(seize(&g_survivor, 1, empty_heap), 0u); });
  g_survivor->inside.store(kOutside, relaxed);
  EXPECT_EQ(g_survivor->mailbox.load(relaxed), 0u);
}

}  // namespace
}  // namespace coffer
#endif
