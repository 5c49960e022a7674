// SPDX-License-Identifier: MIT
// A heap: the front end that one thread owns. This file holds the record and the fast paths of malloc and free; what
// they cannot do goes on in refill.cpp (allocate), release.cpp (free) and registry.cpp (threads).
//
// allocate(size):                                 free(block):
//   size over 32 KiB ........ large/                address outside the first arena .. free_elsewhere
//   class by one table load                         inside := 1; heap := self
//   inside := popping                               inside := span
//   heap := self                                    heap := self
//   heap->blocks[class] empty .. refill             span's owner is not the heap ..... free_beyond
//   pop                                             not the start of a block ......... report
//   inside := outside                               push on the span's local list
//                                                   countdown reaches zero ........... local_event
//                                                   inside := outside
//
// In the hot span of a class, blocks move in a circle: the heap's list (to allocate from) is refilled from the span's
// local list (what the owner freed), then from its remote list, then by cutting an absent page. What `inside` and
// `self` are for says inside.hpp.
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

// Chains of remote frees that a heap has open (chains.hpp).
inline constexpr u32 kChainsLog2 = 5;
inline constexpr u32 kChains = 1u << kChainsLog2;
struct Chain {
  Owned<Span*> span;  // of which all its blocks are; nullptr: none is on it
  Owned<Block*> first, last;
  Owned<u32> count, limit;
};

struct Watch;

struct alignas(kCacheLine) Heap {
  constexpr Heap() = default;
  constexpr explicit Heap(Heap* name) : self(name) {}

  // --- What malloc touches. Owner only. First, so that the index is the whole address. ---
  Owned<Block*> blocks[kClasses];  // free blocks of the hot span of the class

  // --- What every call touches. ---
  Atomic<Heap*> self;  // this heap; the null heap while another than its thread has it (seizing.hpp)
  // What its thread is at work on: kOutside, kPopping, kInSlowPath, or the span that it frees into.
  Atomic<uptr> inside;

  // --- Slow paths. Owner only, but for the mailbox. ---
  Owned<u32> index;         // in the registry
  Chain chains[kChains];    // of remote frees
  Owned<u32> chain_turn;    // which of them is closed next
  Owned<u32> settled;       // g_shortage when all its spans with free blocks were known (refill.cpp)
  Owned<usize> slack;       // free bytes in the spans on the rings, as counted at their last event
  Owned<usize> empties;     // of these, bytes of spans that are empty
  Owned<u32> shed_class;    // where shedding surplus reusable spans goes on
  Owned<u32> generation;    // fork generation of the thread that uses the heap (registry.cpp)
  Owned<u32> next_waiting;  // registry's list
  Owned<Span*> hot[kClasses];
  Owned<SpanNumber> reusable[kClasses];  // rings of spans with room, one a class: the newest; before it the oldest
  Owned<u32> asked[kClasses];            // ticks at the class's last slow refill (mixing.cpp)
  Owned<u8> grown;                       // the process was not small once: no young blocks any more (mixing.cpp)
  Owned<u8> young_blocks[kClasses];      // blocks that came from the mixed spans of a small process (mixing.cpp)
  Owned<u8> churn[kClasses];             // blocks of about this size that the thread freed in mixed spans (mixing.cpp)
  Owned<u8> zero[kClasses];              // the blocks of the class are zero but for their links

  Owned<Watch*> watch;  // what is counted of it while lists are sampled (watching.hpp); nullptr: nothing yet

  Owned<u32> ticks;  // grows with each list that malloc takes: a heap whose ticks stand still is idle (seizing.cpp)

  // What others write, too.
  alignas(kCacheLine) Atomic<u64> mailbox;  // claimed spans (heap/mail.hpp)
  Atomic<usize> held;                       // bytes of the spans that are private to it
  Atomic<u32> attached;                     // 1: a thread uses it
  Atomic<u64> watched;                      // when it was seen by those who look for idle heaps (seizing.cpp)
  Atomic<u32> rested;                       // the same as the reclaimer sees it
};

// The heap of the calling thread: what it may use of it, `self` says. Threads without one (new, or past their end) have
// the null heap, which is its own `self`: it has no blocks and owns no span, so that both fast paths fall through
// without a test of their own.
// See Heap::inside.
inline constexpr uptr kOutside = 0;
inline constexpr uptr kPopping = 1;     // malloc's fast path: a list that malloc pops from
inline constexpr uptr kInSlowPath = 2;  // anything

extern Heap g_null_heap __attribute__((visibility("hidden")));
extern __thread Heap* t_heap __attribute__((visibility("hidden"), tls_model("initial-exec")));

// --- Slow paths. They go on with the call that a fast path began, and end it. ---

void* allocate_any(usize size);
void free_elsewhere(void* block);
// The slot's record names no heap, or another one. free_beyond looks for a later slot of a span of our own first.
void free_beyond(void* block, Span* slot);
void free_not_local(void* block, Span* slot);
void free_sized_elsewhere(void* block, usize size);
void free_sized_beyond(void* block, Span* slot, usize size);
void free_sized_not_local(void* block, Span* slot, usize size);
void local_event(Span* span);
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

// malloc's own. nullptr: the slow path has to serve, and ends the call.
COFFER_INLINE void* allocate_fast(usize size) {
  // relaxed: it goes from 0 to its value once (open_fast_path in registry.cpp), and a thread that sees 0 late takes the
  // slow path once more.
  if (COFFER_UNLIKELY(!g_arenas.arenas[0].fast_sizes.is_above(size))) return nullptr;
  Heap* own = t_heap;
  usize size_class = class_of(size);
  // relaxed and a compiler fence, for the barrier is the seizer's (inside.hpp).
  own->inside.store(kPopping, relaxed);
  compiler_fence();
  Heap* heap = own->self.load(acquire);  // acquire: pairs with the release in seize
  COFFER_KEEP_IN_RDX(size_class);        // so that the block can be in the register in which it is returned
  Block* block = heap->blocks[size_class].get();
  if (COFFER_UNLIKELY(block == nullptr)) return nullptr;
  __asm__("" : "+r"(size_class));  // two scaled accesses; else the compiler spends an instruction on their address
  heap->blocks[size_class].set(block->next);
  own->inside.store(kOutside, release);  // release: pairs with the seizer's acquire
  return block;
}

// Pushes a block on the local list of a span that the thread's heap owns. True: the countdown is over.
COFFER_INLINE bool push_local(Span* span, Block* block, Block* head) {
  block->next = head;
  compiler_fence();  // a fork child must not see the list before the link
  span->local_free.set(block);
  return span->countdown.decrement();
}

// Frees a block of a span that `heap`, the thread's, owns, and ends the call.
template <bool kSized>
COFFER_INLINE void free_own(void* block, Span* span, Heap* heap, usize size) {
  Block* head = span->local_free.get();
  if constexpr (kMisuseChecks) {
    if (COFFER_UNLIKELY(!is_block_start(span, reinterpret_cast<uptr>(block)))) return refuse_free(block);
    if (COFFER_UNLIKELY(head == block)) return refuse_free(block);
    if (kSized && COFFER_UNLIKELY(size > span->block_bytes.get())) return refuse_size(block, size);
  }
  if (COFFER_UNLIKELY(push_local(span, static_cast<Block*>(block), head))) return local_event(span);
  heap->inside.store(kOutside, release);  // release: as in allocate_fast. A heap that can be used is its own `self`
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
  Heap* own = t_heap;
  own->inside.store(reinterpret_cast<uptr>(span), relaxed);  // relaxed, and the fence: as in allocate_fast
  compiler_fence();
  Heap* heap = own->self.load(acquire);  // acquire: as there
  // relaxed: equal only if this thread wrote it, or who had the heap before it.
  if (COFFER_UNLIKELY(!span->owner.is(heap)))
    return kSized ? free_sized_beyond(block, span, size) : free_beyond(block, span);
  free_own<kSized>(block, span, heap, size);
}

COFFER_INLINE void deallocate(void* block) { deallocate_as<false>(block, 0); }

}  // namespace coffer
