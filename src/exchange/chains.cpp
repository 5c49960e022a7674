// SPDX-License-Identifier: MIT
#include "exchange/chains.hpp"

#include "exchange/bad_pointer.hpp"
#include "exchange/mixed_free.hpp"
#include "exchange/ownership.hpp"
#include "exchange/registry.hpp"
#include "policy/held_back.hpp"

namespace coffer {

namespace {

// Frees that may wait for each other: for as long as they wait nobody else has them. Never the ones that give a shared
// span back, for they may be the thread's last.
u32 chain_limit(const Span* span, RemoteWord word) {
  const u32 limit = static_cast<u32>(kMaxChainBytes) / span->block_bytes.get() + 1;
  if (!is_shared(word.state())) return limit;
  const u32 live = span->capacity.get() - word.count();
  return live < limit ? live : limit;
}

void push(Heap* heap, Span* span, Block* first, Block* last, u32 count) {
  const PushDuty duty = push_remote(span, first, last, count);
  if (duty == PushDuty::mixed) return free_mixed_list(heap, first, count, span);
  if (duty == PushDuty::double_free) return refuse_free(first);
  do_duty(span, duty);
}

}  // namespace

void free_remote(Heap* heap, Span* span, Block* block) {
  // A thread that only frees gets a heap for its chains: one atomic for a chain of blocks instead of each.
  if (heap == &g_null_heap) heap = own_heap_slow();
  if (COFFER_UNLIKELY(heap == nullptr)) {
    note_if_heapless(t_heap);
    return push(&g_null_heap, span, block, block, 1);
  }
  Chain& chain = chain_of(heap, span);
  if (chain.span.get() == span) {
    Block* first = chain.first.get();
    if (add_to_chain(chain, block, first)) close_chain(heap, chain);
    return;
  }
  close_chain(heap, chain);
  set_next(block, nullptr);
  chain.first.set(block);
  chain.last.set(block);
  compiler_fence();  // who looks for a block that is freed twice must not take the old list for this span's
  chain.span.set(span);
  const u32 limit = chain_limit(span, load_word(span, relaxed));  // relaxed: a snapshot
  chain.limit.set(static_cast<u16>(limit));
  chain.left.set(limit - 1);
  if (limit <= 1) close_chain(heap, chain);
}

void close_chain(Heap* heap, Chain& chain) {
  Span* span = chain.span.get();
  if (span == nullptr) return;
  chain.span.set(nullptr);
  push(heap, span, chain.first.get(), chain.last.get(), chain.count());
}

void close_chains(Heap* heap) {
  for (Chain& chain : heap->chains) close_chain(heap, chain);
}

void close_next_chain(Heap* heap) {
  const u32 turn = heap->chain_turn.get();
  heap->chain_turn.set(turn + 1);
  close_chain(heap, heap->chains[turn % kChains]);
}

}  // namespace coffer
