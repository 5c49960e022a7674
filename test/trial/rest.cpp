// SPDX-License-Identifier: MIT
#include "trial/rest.hpp"

#include <vector>

#include "arena/each.hpp"
#include "config/config.hpp"
#include "exchange/registry.hpp"
#include "exchange/registry_record.hpp"
#include "observe/counters.hpp"
#include "policy/returned.hpp"
#include "pool/reclaimer.hpp"
#include "support/check.hpp"

namespace coffer::trial {

namespace {

// take_waiting looks at nothing: a heap that waits twice would get two threads.
void expect_waiting_once() {
  std::vector<bool> seen(heaps_ever());
  for (const Waiting& waiting : g_registry.waiting) {
    // relaxed, both: everything rests.
    for (u32 i = waiting_index(waiting.newest.load(relaxed)); i != 0; i = record(i)->next_waiting.get()) {
      REQUIRE(!seen[i], "heap %u waits twice for a thread", i);
      seen[i] = true;
      REQUIRE(record(i)->attached.load(relaxed) == 0, "heap %u waits for a thread and has one", i);
    }
  }
}

}  // namespace

void expect_nothing_left_behind(bool is_child) {
  for (u32 i = 1; i < heaps_ever(); ++i) {
    const Heap* const heap = heap_by_index(i);
    // coffer_check looks at no heap that is at work. In a child one may be without its thread (stamp_heaps).
    REQUIRE(is_child || at_work_on(heap, relaxed) == kOutside, "heap %u is at work and all threads are outside", i);
    if (heap->attached.load(relaxed) != 0) continue;
    REQUIRE(heap->mailbox.load(relaxed) == 0, "mail waits at heap %u, which has no thread", i);
    REQUIRE(heap->left_chains.load(relaxed) == 0, "heap %u has no thread and chains left", i);
    for (const Chain& chain : heap->chains) {
      REQUIRE(chain.span.get() == nullptr, "heap %u has no thread and an open chain", i);
    }
  }
  expect_waiting_once();
}

void expect_little_resident() {
  if (calls_sweep()) return;  // no thread can be had: by the option, or at a look in the midst of the program
  const usize dirty = counters().dirty.load(relaxed);  // relaxed: everything rests
  const usize most = config::options().free_limit + kFreeBatch;
  REQUIRE(dirty <= most, "%zu free bytes are resident after seconds of rest; at most %zu may be", dirty, most);
}

void expect_nothing_resident() {
  const usize dirty = counters().dirty.load(relaxed);  // relaxed: everything rests
  REQUIRE(dirty == 0, "%zu free bytes are resident after a trim", dirty);
}

usize large_tails() {
  usize bytes = 0;
  for_each_chunk([&](const Arena* arena, u32 index, ChunkUse use) {
    if (use != ChunkUse::large) return;
    const usize whole = usize{arena->chunks[index].large_chunks.get()} * kChunkBytes;
    bytes += whole - large_bytes(arena->spans + usize{index} * kSlicesPerChunk);
  });
  return bytes;
}

}  // namespace coffer::trial
