// SPDX-License-Identifier: MIT
// free's slow paths: countdown events of the owner, blocks of other heaps, blocks elsewhere, and what is not a block.
#include "heap/bracket.hpp"
#include "heap/hot.hpp"
#include "heap/mixing.hpp"
#include "heap/ownership.hpp"
#include "heap/profiling.hpp"
#include "heap/registry.hpp"
#include "heap/walk.hpp"
#include "large/large.hpp"
#include "mixed/mixed.hpp"
#include "span/emptiness.hpp"

namespace coffer {

namespace {

using harden::BadPointer;

void clear_bracket(Heap* heap) {
  heap->bracket.store(nullptr, release);  // release: as at the end of deallocate
}

// The large block of several chunks that an address lies in. Only a large block's first chunk is marked, so this looks
// at all of them: good enough for last words.
Span* large_around(const Arena* arena, uptr address) {
  Span* found = nullptr;
  for_each_chunk([&](Arena* in, u32 index, ChunkUse use) {
    if (in != arena || use != ChunkUse::large) return;
    if (address - chunk_address(in, index) < usize{in->chunks[index].large_chunks.get()} * kChunkBytes) {
      found = in->spans + usize{index} * kSlotsPerChunk;
    }
  });
  return found;
}

usize usable_bytes(const Span* span) { return is_large(span) ? large_usable(span) : span->block_bytes.get(); }

struct ChainLimits {
  u8 blocks[kClasses];
};
constexpr ChainLimits compute_chain_limits() {
  ChainLimits limits{};
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const u32 bytes = kLayout[c].block_bytes;
    const usize blocks = bytes * kMaxChain <= kMaxChainBytes ? kMaxChain : kMaxChainBytes / bytes + 1;
    limits.blocks[c] = static_cast<u8>(blocks);
  }
  return limits;
}
constexpr ChainLimits kChainLimits = compute_chain_limits();

// Frees that may wait for each other: few of large blocks, for as long as they wait nobody else has them; and never the
// ones that give a shared span back, for they may be the thread's last.
u32 chain_limit(const Span* span, RemoteWord word) {
  u32 limit = kChainLimits.blocks[span->size_class.get()];
  if (is_shared(word.state()) && span->capacity.get() - word.count() < limit) {
    limit = span->capacity.get() - word.count();
  }
  return limit;
}

void free_remote(Heap* heap, Span* span, Block* block) {
  // A thread that only frees gets a heap for its chain: one atomic for up to kMaxChain blocks instead of each.
  if (heap == &g_null_heap) heap = own_heap_slow();
  if (COFFER_UNLIKELY(heap == nullptr)) {
    heap = &g_null_heap;
    note_if_heapless(heap);
    const PushDuty duty = push_remote(span, block, block, 1);
    if (duty == PushDuty::mixed) return free_mixed(block, span);
    if (duty == PushDuty::double_free) return refuse_free(block);
    do_duty(heap, span, duty);
    return;
  }
  const u32 count = heap->chain_count.get();
  if (count != 0 && heap->chain_span.get() == span) {
    if (heap->chain_first.get() == block) return refuse_free(block);
    block->next = heap->chain_first.get();
    heap->chain_first.set(block);
    heap->chain_count.set(count + 1);
    if (count + 1 >= heap->chain_limit.get()) close_chain(heap);
    return;
  }
  if (count != 0) close_chain(heap);
  // relaxed: a look for the commonest mistake.
  const RemoteWord word = load_word(span, relaxed);
  if (word.first() != 0 && span_start(span) + uptr{word.first() - 1} * kQuantum == reinterpret_cast<uptr>(block)) {
    return refuse_free(block);
  }
  heap->chain_span.set(span);
  heap->chain_first.set(block);
  heap->chain_last.set(block);
  heap->chain_count.set(1);
  heap->chain_limit.set(chain_limit(span, word));
  if (heap->chain_limit.get() <= 1) close_chain(heap);
}

}  // namespace

void report_bad_pointer(const char* call, void* block) {
  const uptr address = reinterpret_cast<uptr>(block);
  Arena* arena = arena_of(address);
  if (arena == nullptr) harden::bad_pointer(call, block, BadPointer::foreign, 0);
  Span* span = first_record(slot_record(arena, address));
  if (span == nullptr) span = large_around(arena, address);
  if (span == nullptr) {
    // relaxed: words for a person. A pointer to memory that never held anything is foreign, not freed.
    const bool used = slot_record(arena, address)->remote.load(relaxed) != 0 ||
                      slot_record(arena, address)->absent.get() != 0 ||
                      slot_record(arena, address)->first_distance.get() != 0;
    harden::bad_pointer(call, block, used ? BadPointer::free_span : BadPointer::foreign, 0);
  }
  if (is_large(span)) {
    harden::bad_pointer(call, block, BadPointer::not_a_start, large_usable(span));
  }
  if (is_mixed(span)) {
    // Of a block that was freed the table knows nothing any more.
    const usize bytes = g_mixed_pool.size_around(span, address);
    const bool hole = bytes == 0 && address % kQuantum == 0;
    harden::bad_pointer(call, block, hole ? BadPointer::already_free : BadPointer::not_a_start, bytes);
  }
  const BadPointer what = is_block_start(span, address) ? BadPointer::already_free : BadPointer::not_a_start;
  harden::bad_pointer(call, block, what, span->block_bytes.get());
}

void refuse_free(void* block) { report_bad_pointer("free", block); }

void refuse_size(void* block, usize size) {
  const uptr address = reinterpret_cast<uptr>(block);
  Arena* arena = arena_of(address);
  Span* span = first_record(slot_record(arena, address));
  if (span == nullptr) refuse_free(block);  // another thread freed it meanwhile
  // A pointer to something else is the better explanation of a wrong size.
  if (is_mixed(span)) harden::bad_size(block, size, g_mixed_pool.size_of(span, block));
  const bool start = is_large(span) ? address == span->first_block : is_block_start(span, address);
  if (!start) refuse_free(block);
  harden::bad_size(block, size, usable_bytes(span));
}

void local_event(Span* span, Heap* heap) {
  settle_fork();
  // relaxed: the owner acts on states that only it changes, or somebody's claim, and then a CAS decides.
  const SpanState state = load_word(span, relaxed).state();
  switch (state) {
    case SpanState::reusable:
      if (recount(heap, span)) break;
      [[fallthrough]];
    case SpanState::floating:
      place(heap, span, state);
      break;
    case SpanState::hot:
      hot_event(heap, span);
      break;
    default:
      set_countdown(span, local_count(span), kNever);  // claimed: it comes by mail, or was taken
      break;
  }
  clear_bracket(heap);
}

namespace {

// As deallocate_as, for the first record of the span that a later slot belongs to.
template <bool kSized>
COFFER_INLINE bool free_in_later_slot(void* block, Span* slot, usize size) {
  if (slot->use.load(relaxed) != SlotUse::span_rest) return false;  // relaxed: see describe_slots in span.cpp
  Span* span = slot - slot->first_distance.get();
  Heap* heap = t_heap;
  heap->bracket.store(span, relaxed);  // relaxed, here and below: see deallocate_as
  compiler_fence();
  if (!span->owner.is(heap)) return false;
  free_own<kSized>(block, span, heap, size);
  return true;
}

// The free that fills the chain, or that it takes no more of.
COFFER_NOINLINE void close_full_chain(Heap* heap) {
  settle_fork();
  close_chain(heap);
}

// After settle_fork.
void free_in_mixed(Heap* heap, void* block, Span* span, usize size) {
  note_if_heapless(heap);
  clear_bracket(heap);
  free_mixed(block, span, size);
}

COFFER_NOINLINE void free_not_chained(void* block, Span* slot) {
  settle_fork();
  Heap* heap = t_heap;
  Span* span = first_record(slot);
  if (COFFER_UNLIKELY(span == nullptr)) return refuse_free(block);
  const uptr address = reinterpret_cast<uptr>(block);
  if (is_large(span)) {
    note_if_heapless(heap);
    clear_bracket(heap);
    forget_sample(block);
    if (!free_large(block, span)) return refuse_free(block);
    return;
  }
  if (is_mixed(span)) return free_in_mixed(heap, block, span, 0);
  if (kMisuseChecks && COFFER_UNLIKELY(!is_block_start(span, address))) return refuse_free(block);
  // A later slot of a span of our own, or the fast path is off. relaxed, here and below: equal only if this thread
  // itself wrote it; see bracket.hpp.
  if (span->owner.load(relaxed) == heap) {
    heap->bracket.store(span, relaxed);  // the span's name is that of its first slot
    bracket_fence();
    if (COFFER_LIKELY(span->owner.load(relaxed) == heap)) {
      Block* head = span->local_free.get();
      if (kMisuseChecks && COFFER_UNLIKELY(head == block)) return refuse_free(block);
      if (COFFER_UNLIKELY(push_local(span, static_cast<Block*>(block), head))) return local_event(span, heap);
      clear_bracket(heap);
      return;
    }
  }
  clear_bracket(heap);
  free_remote(heap, span, static_cast<Block*>(block));
}

}  // namespace

void free_not_local(void* block, Span* slot) {
  // The commonest remote free goes on the open chain, and nobody but this thread sees it yet. The blocks that wait on
  // it are live to all others, so the span is what it was when the chain was opened; and it is none of this heap's, for
  // heaps close their chain before they come by spans.
  Heap* heap = t_heap;
  Block* first = heap->chain_first.get();
  if (COFFER_LIKELY(heap->chain_span.get() == slot && first != block) &&
      (!kMisuseChecks || COFFER_LIKELY(is_block_start(slot, reinterpret_cast<uptr>(block))))) {
    const u32 count = heap->chain_count.get() + 1;
    static_cast<Block*>(block)->next = first;
    heap->chain_first.set(static_cast<Block*>(block));
    heap->chain_count.set(count);
    clear_bracket(heap);
    if (COFFER_UNLIKELY(count >= heap->chain_limit.get())) close_full_chain(heap);
    return;
  }
  free_not_chained(block, slot);
}

void free_beyond(void* block, Span* slot) {
  if (!free_in_later_slot<false>(block, slot, 0)) free_not_local(block, slot);
}

void free_sized_beyond(void* block, Span* slot, usize size) {
  if (!free_in_later_slot<true>(block, slot, size)) free_sized_not_local(block, slot, size);
}

void free_sized_not_local(void* block, Span* slot, usize size) {
  Span* span = first_record(slot);
  if (COFFER_UNLIKELY(span == nullptr)) return refuse_free(block);
  if (is_mixed(span)) {
    settle_fork();
    return free_in_mixed(t_heap, block, span, kMisuseChecks ? size : 0);
  }
  if (kMisuseChecks && COFFER_UNLIKELY(size > usable_bytes(span))) return refuse_size(block, size);
  free_not_local(block, span);
}

void free_elsewhere(void* block) {
  if (block == nullptr) return;
  Arena* arena = arena_of(reinterpret_cast<uptr>(block));
  if (arena == nullptr) return refuse_free(block);
  free_not_local(block, slot_record(arena, reinterpret_cast<uptr>(block)));
}

void free_sized_elsewhere(void* block, usize size) {
  if (block == nullptr) return;
  Arena* arena = arena_of(reinterpret_cast<uptr>(block));
  if (arena == nullptr) return refuse_free(block);
  free_sized_not_local(block, slot_record(arena, reinterpret_cast<uptr>(block)), size);
}

}  // namespace coffer
