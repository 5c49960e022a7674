// SPDX-License-Identifier: MIT
// A heap: the front end that one thread owns. This file holds the record and the fast paths of malloc and free; what
// they cannot do goes on in refill.cpp (allocate), release.cpp (free) and registry.cpp (threads).
//
// allocate(size):                                 free(block):
//   size over 32 KiB ........ large/                address outside the first arena .. free_elsewhere
//   class by one table load                         bracket := span
//   heap->blocks[class] empty .. refill             span's owner is not this heap .... free_beyond
//   pop, return                                     not the start of a block ......... report
//                                                   push on the span's local list
//                                                   countdown reaches zero ........... local_event
//                                                   bracket := none
//
// In the hot span of a class, blocks move in a circle: the heap's list (to allocate from) is refilled from the span's
// local list (what the owner freed), then from its remote list, then by cutting an absent page.
#pragma once

#include "harden/report.hpp"
#include "span/span.hpp"

namespace coffer {

inline constexpr bool kMisuseChecks =
#ifdef COFFER_NO_CHECKS
    false;
#else
    true;
#endif

// Frees for one span of others that a heap may hold back, to push them at once; and about how many bytes.
inline constexpr u32 kMaxChain = 16;
inline constexpr usize kMaxChainBytes = 4096;

// Classes of which a heap among many has blocks from holes on its lists. With four the drifting phases of four threads
// take an eighth longer; without a limit 200 idle heaps whose blocks others freed kept 29 MB instead of 19.
inline constexpr u32 kFewHoleLists = 8;

struct Watch;

struct alignas(kCacheLine) Heap {
  // --- What malloc touches. Owner only. ---
  Owned<Block*> blocks[kClasses];  // free blocks of the hot span of the class

  // --- What free touches. ---
  Atomic<Span*> bracket;    // span whose owner's line this thread may be writing; read by whoever takes spans away
  Owned<Span*> chain_span;  // open chain of remote frees: all of this span, last freed first
  Owned<Block*> chain_first;
  Owned<Block*> chain_last;
  Owned<u32> chain_count;
  Owned<u32> chain_limit;

  // --- Slow paths. Owner only, but for the mailbox. ---
  Owned<u32> index;          // in the registry
  Owned<usize> slack;        // free bytes in the spans on the rings, as counted at their last event
  Owned<u32> shed_class;     // where shedding surplus reusable spans goes on
  Owned<u32> generation;     // fork generation of the thread that uses the heap (registry.cpp)
  Owned<u8> attached;        // a thread uses it
  Owned<u32> next_unused;    // registry's list
  Owned<u32> relaxed_bytes;  // of relaxed hot spans of more than a page (hot.hpp)
  Owned<Span*> hot[kClasses];
  Owned<SpanNumber> reusable[kClasses];  // rings of spans with room, one a class: the newest; before it the oldest
  Owned<u32> asked[kClasses];            // ticks at the class's last slow refill (mixing.cpp)
  Owned<u8> grown;                       // the process was not small once: no young blocks any more (mixing.cpp)
  Owned<u8> hole_lists[kFewHoleLists];   // classes that may have lists of blocks from holes (mixing.cpp)
  Owned<u8> hole_turn;                   // which of them is the oldest
  Owned<u8> young_blocks[kClasses];      // blocks that came from the mixed spans of a small process (mixing.cpp)
  Owned<u8> churn[kClasses];             // blocks of about this size that the thread freed in mixed spans (mixing.cpp)
  Owned<u8> zero[kClasses];              // the blocks of the class are zero but for their links
  Owned<u8> relaxed_class[kClasses];     // hot.hpp, also the next two
  Owned<u8> patience[kClasses];
  Owned<u8> comeback[kClasses];

  Owned<Watch*> watch;  // what is counted of it while lists are sampled (watching.hpp); nullptr: nothing yet

  Owned<u32> ticks;  // grows at slow refills: a heap whose ticks stand still is idle (taking.cpp)

  // What others write, too.
  alignas(kCacheLine) Atomic<u64> mailbox;  // claimed spans (heap/taking.hpp)
  Atomic<usize> held;                       // bytes of the spans that are private to it
  Atomic<u32> watched;                      // ticks as last seen by those who look for idle heaps, and how often
  Atomic<u32> rested;                       // the same as the reclaimer sees it
};

// The heap of the calling thread. Threads without one (new, or past their end) have the null heap: it has no blocks and
// owns no span, so that both fast paths fall through without a test of their own.
extern Heap g_null_heap __attribute__((visibility("hidden")));
extern __thread Heap* t_heap __attribute__((visibility("hidden"), tls_model("initial-exec")));

// --- Slow paths. ---

void* allocate_any(usize size);
void free_elsewhere(void* block);
// The slot's record names no heap, or another one. free_beyond looks for a later slot of a span of our own first.
void free_beyond(void* block, Span* slot);
void free_not_local(void* block, Span* slot);
void free_sized_elsewhere(void* block, usize size);
void free_sized_beyond(void* block, Span* slot, usize size);
void free_sized_not_local(void* block, Span* slot, usize size);
void local_event(Span* span, Heap* heap);
// Reports and aborts. Not declared noreturn: the compiler would call it, with a stack frame, where it now jumps.
void refuse_free(void* block);
void refuse_size(void* block, usize size);
// Says what is wrong with a pointer that `call` was given, and aborts.
[[noreturn]] void report_bad_pointer(const char* call, void* block);

// --- Fast paths. ---

#if defined(__x86_64__)
#define COFFER_KEEP_IN_RDX(x) __asm__("" : "+d"(x))
#else
#define COFFER_KEEP_IN_RDX(x) static_cast<void>(x)
#endif

// malloc's own: nullptr when the slow path has to serve.
COFFER_INLINE void* allocate_fast(usize size) {
  // relaxed: it goes from 0 to its value once (open_fast_path in registry.cpp), and a thread that sees 0 late takes the
  // slow path once more.
  if (COFFER_UNLIKELY(!g_arenas.arenas[0].fast_sizes.is_above(size))) return nullptr;
  Heap* heap = t_heap;
  usize size_class = class_of(size);
  COFFER_KEEP_IN_RDX(size_class);  // so that the block can be in the register in which it is returned
  Block* block = heap->blocks[size_class].get();
  if (COFFER_UNLIKELY(block == nullptr)) return nullptr;
  __asm__("" : "+r"(size_class));  // two scaled accesses; else the compiler spends an instruction on their address
  heap->blocks[size_class].set(block->next);
  return block;
}

// Pushes a block on the local list of a span that `heap` owns; the bracket is set. True: the countdown is over.
COFFER_INLINE bool push_local(Span* span, Block* block, Block* head) {
  block->next = head;
  compiler_fence();  // a fork child must not see the list before the link
  span->local_free.set(block);
  return span->countdown.decrement();
}

// Frees a block of a span that `heap`, the thread's own, owns; the bracket is set.
template <bool kSized>
COFFER_INLINE void free_own(void* block, Span* span, Heap* heap, usize size) {
  Block* head = span->local_free.get();
  if constexpr (kMisuseChecks) {
    if (COFFER_UNLIKELY(!is_block_start(span, reinterpret_cast<uptr>(block)))) return refuse_free(block);
    if (COFFER_UNLIKELY(head == block)) return refuse_free(block);
    if (kSized && COFFER_UNLIKELY(size > span->block_bytes.get())) return refuse_size(block, size);
  }
  if (COFFER_UNLIKELY(push_local(span, static_cast<Block*>(block), head))) return local_event(span, heap);
  // release: pairs with the taker's acquire load; what this free wrote is there before the name is gone.
  heap->bracket.store(nullptr, release);
}

// kSized: `size` is what the caller says that the block was allocated with. It is checked, not trusted: a false claim
// means that the program took the block for something else.
template <bool kSized>
COFFER_INLINE void deallocate_as(void* block, usize size) {
  Arena& arena = g_arenas.arenas[0];
  const usize offset = reinterpret_cast<uptr>(block) - arena.base;
  // relaxed: see arena_of. A null pointer is outside, too.
  if (COFFER_UNLIKELY(!arena.fast_frontier.is_above(offset)))
    return kSized ? free_sized_elsewhere(block, size) : free_elsewhere(block);
  Span* span = arena.spans + offset / kSlotBytes;
  Heap* heap = t_heap;
  // The bracket: whoever takes this span away issues a barrier on this processor (membarrier) and then looks for the
  // span's name here. relaxed and a compiler fence suffice on this side because the barrier is the taker's.
  heap->bracket.store(span, relaxed);
  compiler_fence();
  // relaxed: equal only if this thread itself wrote it.
  if (COFFER_UNLIKELY(!span->owner.is(heap)))
    return kSized ? free_sized_beyond(block, span, size) : free_beyond(block, span);
  free_own<kSized>(block, span, heap, size);
}

COFFER_INLINE void deallocate(void* block) { deallocate_as<false>(block, 0); }

}  // namespace coffer
