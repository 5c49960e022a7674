// SPDX-License-Identifier: MIT
// coffer_check finds what is wrong: each of its lines is provoked, by one seeded fault in a child of its own.
#include <gtest/gtest.h>

#include <functional>

#include "exchange/sums.hpp"
#include "heap/refill.hpp"
#include "heaps.hpp"
#include "mixed/mixed.hpp"
#include "policy/held_back.hpp"
#include "policy/mixing.hpp"
#include "pool/age.hpp"
#include "pool/slice_pool.hpp"
#include "pool/tails.hpp"
#include "span/class_use.hpp"

namespace coffer {
namespace {

using namespace test;

constexpr usize kMiB = usize{1} << 20;
constexpr usize kWideSize = 32 * 1024;
constexpr ClassIndex kWide = compute_class(kWideSize);

// One of everything that a walk can meet.
struct World {
  Blocks blocks;  // of kClass: two floating spans, two reusable ones, one mailed, and the hot one
  Span *floating, *floating_too, *reusable, *reusable_too, *hot;
  Span* mailed;
  Span *listed, *shared, *wide, *slices, *chunks, *fallback;
};

World make_world() {
  start_heaps(usize{1} << 20);
  World world = {};
  {
    Worker thread;
    thread.run([&] {
      const Blocks listed = take_many(16, 2 * kSize), shared = take_many(64, kSize / 2);
      give_many(listed, 0, 8);
      give(shared[0]);
      world.listed = span_of(listed[8]);
      world.shared = span_of(shared[1]);
      const Inside inside;
      empty_heap(t_heap);
    });
  }
  const Blocks mailed = take_many(kCapacity);
  world.blocks = take_many(4 * kCapacity + kBlocksPerPage + 2);
  world.mailed = span_of(mailed[0]);
  world.floating = span_of(world.blocks[0]);
  world.floating_too = span_of(world.blocks[kCapacity]);
  world.reusable = span_of(world.blocks[2 * kCapacity]);
  world.reusable_too = span_of(world.blocks[3 * kCapacity]);
  world.hot = span_of(world.blocks.back());
  give_many(world.blocks, 2 * kCapacity, 2 * kCapacity + kThreshold);
  give_many(world.blocks, 3 * kCapacity, 3 * kCapacity + kThreshold);
  give(world.blocks[4 * kCapacity]);
  give(world.blocks[4 * kCapacity + 1]);
  world.wide = span_of(take(kWideSize));
  world.slices = span_of(take(100 * 1024));
  for (u32 times = 0; times < 2; ++times) give(take(200 * 1024));
  EXPECT_NE(t_heap->kept_slices.get(), 0u);
  world.chunks = span_of(take(3 * kChunkBytes));
  bool zero = false;
  const FallbackHeap fallback;
  world.fallback = span_of(allocate_block(fallback.get(), kClass, true, &zero));
  push_blocks(mailed, 0, kThreshold);
  return world;
}

void set_word(Span* span, SpanState state, u32 count) {
  const RemoteWord word = load_word(span, relaxed);
  span->remote.store(word.with(state, count, word.first()).bits(), relaxed);
}

struct Case {
  const char* line;
  std::function<void(World&)> seed;
};

u32 index_of(const Span* span) { return static_cast<u32>(span - g_arenas.arenas[0].spans) / kSlicesPerChunk; }
Chunk& chunk_of(const Span* span) { return g_arenas.arenas[0].chunks[index_of(span)]; }
u64 bit_of(const Span* span) {
  return u64{1} << (static_cast<usize>(span - g_arenas.arenas[0].spans) % kSlicesPerChunk);
}

// --- Lists of blocks. ---

const Case kBlockCases[] = {
    {"a free list holds an address that is no block of its span",
     [](World& world) { set_next(world.reusable->local_free.get(), static_cast<Block*>(world.blocks[0])); }},
    {"a free list holds an address that is no block of its span",
     [](World&) { t_heap->blocks[kClass].set(reinterpret_cast<Block*>(t_heap->blocks[kClass].get()) + 1); }},
    {"a block of an absent page is on a list", [](World& world) { world.hot->absent.set(~u64{0}); }},
    {"a free list has a cycle",
     [](World& world) { set_next(next_of(world.reusable->local_free.get()), world.reusable->local_free.get()); }},
    {"the local list is not as long as the countdown says",
     [](World& world) { set_countdown(world.reusable, 1, 100); }},
    {"absent pages do not hold the blocks that are not carved", [](World& world) { world.hot->carved.set(9); }},
    {"the remote list is not as long as its count", [](World& world) { set_word(world.hot, SpanState::owned, 1); }},
    {"a span has more free blocks than blocks",
     [](World& world) {
       // All of them freed by the owner, and many by others as well.
       for (u32 i = 0; i < kCapacity; ++i) {
         set_next(static_cast<Block*>(world.blocks[i]),
                  i + 1 < kCapacity ? static_cast<Block*>(world.blocks[i + 1]) : nullptr);
       }
       Span* span = world.floating;
       span->local_free.set(static_cast<Block*>(world.blocks[0]));
       set_countdown(span, kCapacity, kNever);
       const u32 unit = static_cast<u32>(12 * kSize / kQuantum + 1);
       span->remote.store(load_word(span, relaxed).with(SpanState::owned, kCapacity - 12, unit).bits(), relaxed);
     }},
    {"a hot span has more free blocks than blocks", [](World& world) { world.hot->carved.set(0); }},
};

// --- Spans. ---

const Case kSpanCases[] = {
    {"a span in use is in a passing state", [](World& world) { set_state(world.floating, SpanState::free); }},
    {"an empty shared span was not given back",
     [](World& world) { set_word(world.shared, SpanState::shared, world.shared->capacity.get()); }},
    {"a private span has no owner", [](World& world) { world.floating->owner.store(nullptr, relaxed); }},
    {"a private span has no owner", [](World& world) { world.reusable->owner.store(nullptr, relaxed); }},
    {"a claimed span was handed on to nobody", [](World& world) { set_state(world.floating, SpanState::claimed); }},
    {"a claimed span was handed on to nobody", [](World&) { t_heap->mailbox.store(0, relaxed); }},
    {"a claimed span was handed on to nobody",
     [](World& world) { world.mailed->owner.store(heap_by_index(0), relaxed); }},
    {"a shared span has an owner", [](World& world) { world.shared->owner.store(t_heap, relaxed); }},
    {"a shared span's count is wrong", [](World& world) { set_word(world.shared, SpanState::shared, 5); }},
    {"an empty shared span was not given back", [](World& world) { set_word(world.listed, SpanState::listed, 16); }},
    {"listed and linked differ", [](World& world) { set_state(world.shared, SpanState::listed); }},
    {"listed and linked differ", [](World& world) { set_state(world.listed, SpanState::shared); }},
    {"a span on a ring is hot, or nobody's", [](World& world) { t_heap->hot[kClass].set(world.reusable); }},
    {"a span on a ring is hot, or nobody's", [](World& world) { world.reusable->owner.store(nullptr, relaxed); }},
};

// --- Heaps. ---

const Case kHeapCases[] = {
    {"a heap is still seized", [](World&) { t_heap->self.store(&g_null_heap, relaxed); }},
    {"a span on a heap's ring is not its own",
     [](World& world) { world.reusable->owner.store(heap_by_index(0), relaxed); }},
    {"a heap's hot span is not its own", [](World& world) { world.hot->owner.store(heap_by_index(0), relaxed); }},
    {"a heap's hot span is not its own", [](World& world) { t_heap->hot[kWide].set(world.hot); }},
    {"a heap's ring is broken", [](World& world) { world.reusable->ring_previous.set(span_number(world.wide)); }},
    {"a heap's ring is broken", [](World& world) { world.reusable_too->ring_next.set(0); }},
    {"a heap has blocks without a hot span that are not of a mixed one",
     [](World&) { t_heap->hot[kClass].set(nullptr); }},
    {"a heap's slack is wrong", [](World&) { t_heap->slack.set(t_heap->slack.get() + 1); }},
    {"a heap's slack is wrong", [](World& world) { world.reusable->ring_slack.set(0); }},
    {"a heap's slack is wrong", [](World&) { t_heap->empties.set(t_heap->empties.get() + kSliceBytes); }},
    {"a reusable span has more free than its heap counts",
     [](World& world) {
       // Frees without an event.
       set_countdown(world.reusable, local_count(world.reusable), kNever);
       give_many(world.blocks, 2 * kCapacity + kThreshold, 2 * kCapacity + 4 * kThreshold);
     }},
};

// --- What a heap may hold at most. ---

void set_count(Chain& chain, u32 count) {
  chain.limit.set(static_cast<u16>(count));
  chain.left.set(0);
}

void put_on_chain(const World& world, u32 count) {
  Span* span = world.fallback;
  Chain& chain = chain_of(t_heap, span);
  chain.span.set(span);
  for (u32 i = 0; i < count; ++i) {
    Block* block = block_at(span, i);
    set_next(block, i + 1 < count ? block_at(span, i + 1) : nullptr);
    chain.last.set(block);
  }
  chain.first.set(block_at(span, 0));
  set_count(chain, count);
}

// Frees that come to nothing: no event, no claim, no list.
void free_unseen(Span* span, const Blocks& blocks, usize from, usize to) {
  set_countdown(span, local_count(span), kNever);
  give_many(blocks, from, to);
}
void push_unseen(Span* span, u32 from, u32 to) {
  span->claim_at.store(kNever, relaxed);
  for (u32 i = from; i < to; ++i) {
    Block* block = block_at(span, i);
    EXPECT_EQ(push_remote(span, block, block, 1), PushDuty::none);
  }
}

const Case kTermCases[] = {
    {"a floating span has more free than it may, heap 1, class 31 of 1024 bytes",
     [](World& world) { free_unseen(world.floating, world.blocks, 0, kThreshold); }},
    {"a floating span has more free than it may, heap 1, class 31 of 1024 bytes",
     [](World& world) { push_unseen(world.floating, 0, kThreshold); }},
    {"a floating span has more free than it may, heap 1, class 31 of 1024 bytes",
     [](World& world) { t_heap->hot[kClass].set(world.floating); }},
    {"a shared span that is not listed has more free than it may, class 23 of 512 bytes",
     [](World& world) { push_unseen(world.shared, 1, 8); }},
    {"a heap keeps more in partly used spans than it may, heap 1",
     [](World&) {
       // By what it holds now, not by what it held.
       const usize most =
           slack_budget(config::options().slack, heaps_share_of(config::options().free_limit, 1), 0, true);
       t_heap->slack.set(t_heap->empties.get() + most + (usize{1} << 20));
     }},
    {"a heap keeps more than it may", [](World&) { t_heap->empties.set(~usize{0} / 2); }},
    {"a heap keeps more in partly used spans than it may",
     [](World&) { t_heap->slack.set(t_heap->slack.get() + (usize{1} << 45)); }},
    {"a chain holds back more than it may", [](World& world) { put_on_chain(world, kMaxChainBytes / kSize + 1); }},
    {"a chain holds back more than it may",
     [](World& world) {
       put_on_chain(world, 2);
       Chain& there = chain_of(t_heap, world.fallback);
       Chain& other = t_heap->chains[(static_cast<usize>(&there - t_heap->chains) + 1) % kChains];
       other.first.set(there.first.get());
       other.last.set(there.last.get());
       set_count(other, 2);
       other.span.set(there.span.get());
     }},
    {"a chain is not as long as its count",
     [](World& world) {
       put_on_chain(world, 2);
       set_count(chain_of(t_heap, world.fallback), 3);
     }},
    {"a chain is not as long as its count",
     [](World& world) {
       put_on_chain(world, 2);
       chain_of(t_heap, world.fallback).first.set(static_cast<Block*>(world.blocks[0]));
     }},
    {"a heap's mail is not its own", [](World& world) { put_in_box(t_heap, world.floating); }},
    {"a mailbox holds more than its heap owns",
     [](World& world) { t_heap->mailbox.store(box_with(0, 2, span_number(world.mailed)), relaxed); }},
    {"a mailbox holds more than its heap owns", [](World&) { t_heap->held.store(0, relaxed); }},
    {"mail waits at a heap without a thread", [](World&) { t_heap->attached.store(0, relaxed); }},
};

// --- Chunks, slices and sums. ---

const Case kChunkCases[] = {
    {"a chunk is taken and not described",
     [](World& world) { chunk_of(world.hot).use.store(ChunkUse::none, relaxed); }},
    {"a slice in use counts as free memory",
     [](World& world) { chunk_of(world.hot).dirty.fetch_or(bit_of(world.hot), relaxed); }},
    {"a free slice is described", [](World& world) { chunk_of(world.hot).free.fetch_or(bit_of(world.hot), relaxed); }},
    {"a slice is lost", [](World& world) { world.floating->use.store(SliceUse::none, relaxed); }},
    {"a slice is lost", [](World& world) { world.slices->use.store(SliceUse::none, relaxed); }},
    {"a slice is lost", [](World& world) { world.slices->slices.set(1); }},
    {"a slice is lost",
     [](World&) { t_heap->kept_slices.set(t_heap->kept_slices.get() & (t_heap->kept_slices.get() - 1)); }},
    {"a later slice has no first", [](World& world) { world.slices->use.store(SliceUse::span_rest, relaxed); }},
    {"a later slice is wrong", [](World& world) { world.wide[3].first_distance.set(2); }},
    {"a later slice is wrong", [](World& world) { world.wide[7].use.store(SliceUse::none, relaxed); }},
    {"a later slice is wrong", [](World& world) { world.slices[1].use.store(SliceUse::span_rest, relaxed); }},
    {"a slice of a span is free",
     [](World& world) { chunk_of(world.wide).free.fetch_or(bit_of(world.wide + 2), relaxed); }},
    {"a span of the partial pool is not listed", [](World& world) { set_state(world.listed, SpanState::shared); }},
    {"the bytes held are not what the counter says", [](World&) { counters().held.fetch_add(1, relaxed); }},
    {"the free resident bytes are not what the counter says", [](World&) { counters().dirty.fetch_sub(1, relaxed); }},
    {"the bytes held are not what the counter says", [](World& world) { set_large_bytes(world.chunks, 5); }},
    {"what the heaps hold is not what they count", [](World&) { t_heap->held.fetch_add(kSliceBytes, relaxed); }},
    {"the bytes of listed spans are not what was counted", [](World& world) { world.listed->slices.set(2); }},
    {"a tail is held, or ends behind its block's chunks",
     [](World& world) { hold_tail(&g_arenas.arenas[0], index_of(world.chunks)); }},
    {"a tail is held, or ends behind its block's chunks",
     [](World& world) {
       const usize tail = chunk_of(world.chunks).large_chunks.get() * kChunkBytes - large_bytes(world.chunks);
       set_tail(&g_arenas.arenas[0], index_of(world.chunks), tail + kCarvePage);
     }},
    {"the bytes of tails are not what was counted", [](World&) { tail_changes(0, kCarvePage); }},
    {"free memory is over its limit",
     [](World&) {
       changeable_options().free_limit = 0;
       ChunkRun run;
       ASSERT_TRUE(take_chunks(300, 1, false, &run));
       return_chunks(run.arena, run.index, run.count, true);
     }},
    {"mixed spans hold more than their bound",
     [](World&) {
       for (usize bytes = 0; bytes <= kMixedFloor + kMiB; bytes += 8 * kSliceBytes) {
         ASSERT_NE(g_mixed_pool.make(64, 8), nullptr);
         counters().mixed.store(0, relaxed);  // what its bound is judged by
       }
     }},
};

template <usize kCount>
void expect_found(const Case (&cases)[kCount]) {
  World world = make_world();
  ASSERT_EQ(life_of(world.floating), SpanLife::floating);
  ASSERT_EQ(life_of(world.floating_too), SpanLife::floating);
  ASSERT_EQ(reusable_of(t_heap), (std::vector<Span*>{world.reusable_too, world.reusable}));
  ASSERT_EQ(state_of(world.mailed), SpanState::claimed);
  ASSERT_EQ(owner_of(world.mailed), t_heap);
  ASSERT_EQ(life_of(world.hot), SpanLife::hot);
  ASSERT_EQ(state_of(world.listed), SpanState::listed);
  ASSERT_EQ(state_of(world.shared), SpanState::shared);
  ASSERT_EQ(world.wide->slices.get(), 8u);
  ASSERT_EQ(t_heap->hot[kWide].get(), world.wide);
  ASSERT_TRUE(feeds_malloc(world.hot));
  ASSERT_NE(t_heap->blocks[kClass].get(), nullptr);
  ASSERT_EQ(attached_heaps(), 1u);
  ASSERT_EQ(check_everything(), 0u) << "before anything is wrong";
  for (const Case& one : cases) {
    usize violations = 0;
    const Outcome outcome = outcome_of([&] {
      one.seed(world);
      violations = check_everything();
      EXPECT_GT(violations, 0u);
      // One line each.
      std::fprintf(stderr, "%zu\n", violations);
    });
    EXPECT_TRUE(outcome.succeeded()) << one.line;
    const std::string line = std::string("coffer: check: ") + one.line;
    const bool found = outcome.errors.find(line + "\n") != std::string::npos ||
                       outcome.errors.find(line + ", heap ") != std::string::npos ||
                       outcome.errors.find(line + ", class ") != std::string::npos;
    EXPECT_TRUE(found) << "missing: " << one.line << "\nfound:\n" << outcome.errors;
    usize lines = 0;
    for (const char character : outcome.errors) lines += character == '\n' ? 1 : 0;
    EXPECT_EQ(lines,
              1 + std::strtoull(outcome.errors.c_str() + outcome.errors.rfind('\n', outcome.errors.size() - 2) + 1,
                                nullptr, 10))
        << outcome.errors;
  }
  EXPECT_EQ(check_everything(), 0u);
}

FRESH_TEST(Check, FindsWhatIsWrongWithListsOfBlocks) { expect_found(kBlockCases); }
FRESH_TEST(Check, FindsWhatIsWrongWithSpans) { expect_found(kSpanCases); }
FRESH_TEST(Check, FindsWhatIsWrongWithHeaps) { expect_found(kHeapCases); }
FRESH_TEST(Check, FindsWhatIsMoreThanItMayBe) { expect_found(kTermCases); }
FRESH_TEST(Check, FindsWhatIsWrongWithChunksAndSums) { expect_found(kChunkCases); }

// A thread that is not here stopped between taking a page to carve and counting its blocks.
FRESH_TEST(Check, LeavesOutAHeapThatIsAtWork) {
  const World world = make_world();
  ASSERT_EQ(check_everything(), 0u);
  world.hot->carved.set(world.hot->carved.get() - 1);
  world.reusable->ring_slack.set(0);
  t_heap->inside.store(kInSlowPath, relaxed);
  EXPECT_EQ(check_everything(), 0u);
  t_heap->inside.store(kOutside, relaxed);
  EXPECT_NE(check_everything(), 0u);
}

// What an allocator does that misses listed spans once a round: it makes others. (issue 16: 80 spans, 2,560 KiB over a
// bound of 1,618.) Here the listed spans are out of the pool while spans are made. Gives the bytes that the class holds
// over its bound.
usize pass_the_bound() {
  std::vector<Span*> missed;
  for (u32 round = 0; round < 40; ++round) {
    Worker thread;
    thread.run([] {
      const Blocks blocks = take_many(4 * kCapacity);
      for (usize i = 0; i < blocks.size(); ++i) {
        if (i % kCapacity != 0) give(blocks[i]);
      }
      const Inside inside;
      empty_heap(t_heap);
    });
    thread.end();
    std::vector<Span*> listed;
    g_partial_pool.for_each([&](Span* span) { listed.push_back(span); });
    for (Span* span : listed) EXPECT_TRUE(g_partial_pool.remove(span));
    missed.insert(missed.end(), listed.begin(), listed.end());
  }
  for (Span* span : missed) EXPECT_TRUE(g_partial_pool.insert(span));
  const usize bound = class_bound(kClass);
  const usize held = class_spans(kClass) * kSliceBytes;
  return held > bound ? held - bound : 0;
}

FRESH_TEST(Check, JudgesByTheBoundWithAnyNumberOfShards) {
  for (const u32 shards : {1u, 2u, 8u}) {
    const Outcome outcome = outcome_of([&] {
      start_heaps();
      slice_pool_start(shards);
      EXPECT_GT(pass_the_bound(), 0u);
      EXPECT_EQ(check_everything(), 1u);
    });
    EXPECT_TRUE(outcome.succeeded()) << shards << " shards\n" << outcome.errors;
    EXPECT_NE(outcome.errors.find("the spans of a class hold more than their bound"), std::string::npos)
        << outcome.errors;
  }
}

FRESH_TEST(Check, HasNothingToSayBeforeTheFirstAllocation) { EXPECT_EQ(check_everything(), 0u); }

}  // namespace
}  // namespace coffer
