// SPDX-License-Identifier: MIT
// The record of a heap: what its thread works with, and what others have of it for a moment (seizing.hpp). The fast
// paths of malloc and free over it are heap/heap.hpp's.
#pragma once

#include "policy/held_back.hpp"
#include "span/span.hpp"

namespace coffer {

// Chains of remote frees that a heap has open (chains.hpp).
inline constexpr u32 kChains = 1u << kChainsLog2;
struct Chain {
  Owned<Span*> span;  // of which all its blocks are; nullptr: none is on it
  Owned<Block*> first, last;
  Owned<u32> left;  // blocks that it still takes
  Owned<u16> limit;

  u32 count() const { return limit.get() - left.get(); }
};

struct Watch;
namespace hardened {
struct Rest;
}

struct alignas(kCacheLine) Heap {
  constexpr Heap() = default;
  constexpr explicit Heap(Heap* name) : self(name) {}

#if !COFFER_PAIRS
  // --- What malloc touches. Owner only. First, so that the index is the whole address. ---
  BlockList blocks[kClasses];  // free blocks of the hot span of the class
  // --- What every call touches. ---
  Atomic<Heap*> self;  // this heap; the null heap while another than its thread has it (seizing.hpp)
#endif
  // What its thread is at work on: kOutside, kPopping, kInSlowPath, or the span that it frees into (and, while that is
  // hot, the list that malloc pops from). Beside that, notes of others: each call writes over them, so that one which
  // is still there says that the thread made no call since (seizing.cpp).
  Atomic<uptr> inside;
#if COFFER_PAIRS
  // The same, for a machine whose loads with acquire and stores with release know no offset: the store to `inside` is
  // one that moves the address on to `self`, and that `inside` of which `self` is the address needs none.
  Atomic<Heap*> self;
  BlockList blocks[kClasses];
#endif

  // --- Slow paths. Owner only, but for the mailbox. ---
  Owned<u32> index;         // in the registry
  Chain chains[kChains];    // of remote frees
  Owned<u32> chain_turn;    // which of them is closed next
  Owned<u32> settled;       // g_shortage when all its spans with free blocks were known (refill.cpp)
  Owned<u32> vain_class;    // 1 + the smallest class that a search was in vain for (heap/failure.hpp); 0: none
  Owned<u32> vain_supply;   // g_supply when that search began
  Owned<u32> vain_turn;     // chain_turn when it ended: no refill came since
  Owned<usize> slack;       // free bytes in the spans on the rings, as counted at their last event
  Owned<usize> empties;     // of these, bytes of spans that are empty
  Owned<Span*> kept_chunk;  // of which it keeps slices (kept_slices.hpp): its first slice's record
  Owned<u64> kept_slices;   // bit i: slice i of it
  Owned<u8> freed_large;    // 1: slices were kept, and no large block was wanted since
  Owned<u32> shed_class;    // where shedding surplus reusable spans goes on
  Owned<u32> generation;    // fork generation of the thread that uses the heap (registry.cpp)
  Owned<u32> next_waiting;  // registry's list
  Owned<Span*> hot[kClasses];
  Owned<SpanNumber> reusable[kClasses];  // rings of spans with room, one a class: the newest; before it the oldest
  Owned<u8> churn[kClasses];             // blocks of about this size that the thread freed in mixed spans (mixing.cpp)
  Owned<u64> churn_began;                // since when: os::coarse_ns

  Owned<Watch*> watch;          // what is counted of it while lists are sampled (watching.hpp); nullptr: nothing yet
  Owned<hardened::Rest*> rest;  // hardened build: what was freed and rests (hardened/rest.hpp); nullptr: nothing yet

  // What others write, too.
  alignas(kCacheLine) Atomic<u64> mailbox;  // claimed spans (exchange/mail.hpp)
  Atomic<usize> held;                       // bytes of the spans that are private to it
  Atomic<u32> attached;                     // 1: a thread uses it
  Atomic<u32> growth_seen;                  // slices by which the process had grown when kNoteOfGrowth was left
  Owned<usize> slack_seen;                  // the reclaimer's: slack at the end of the last tick
  Atomic<u8> emptied;                       // 1: the reclaimer emptied it, and its thread went no slow way since
  Atomic<u8> left_chains;                   // 1: its thread ended while another had it, and may have left chains open
};

// The heap of the calling thread: what it may use of it, `self` says. Threads without one (new, or past their end) have
// the null heap, which is its own `self`: it has no blocks and owns no span, so that both fast paths fall through
// without a test of their own.
// See Heap::inside.
inline constexpr uptr kOutside = 0;
// malloc's fast path: a list that malloc pops from. What it has just compared the size with, and so in a register.
inline constexpr uptr kPopping = kLargestSmall + 1;
inline constexpr uptr kInSlowPath = 2;  // anything

// Notes, bits that no span's address has.
inline constexpr uptr kNoteOfGrowth = 4;    // seen by who makes the process grow
inline constexpr uptr kNoteOfSweep = 8;     // seen by the reclaimer
inline constexpr uptr kNothingFound = 16;   // stolen from, or looked at, and nothing was found
inline constexpr uptr kNoteOfFailure = 32;  // seen by who looks for memory in vain
inline constexpr uptr kNotes = kNoteOfGrowth | kNoteOfSweep | kNothingFound | kNoteOfFailure;
static_assert(kNotes < alignof(Span) && kPopping % alignof(Span) != 0 && (kPopping & kNotes) == 0);

// What its thread is at work on, without the notes. relaxed, or acquire to see what the thread did before.
inline uptr at_work_on(const Heap* heap, std::memory_order order) { return heap->inside.load(order) & ~kNotes; }

extern Heap g_null_heap __attribute__((visibility("hidden")));
extern __thread Heap* t_heap __attribute__((visibility("hidden"), tls_model("initial-exec")));

}  // namespace coffer
