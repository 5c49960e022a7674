// SPDX-License-Identifier: MIT
// A span: its header (figure 4), which is in its first 256 bytes, the states of its life (figure 3) and its two free
// lists.
//
// The epoch word has the state in its upper bits and a counter in the lower 60. Every transition is one CAS on the
// word and adds one to the counter. So a value of the word stands for one stay in one state, for ever:
//
//   expected ── try_mark_hot ── hot            a span fresh from the arena (its memory is zero: state 0)
//   free     ── try_mark_hot ── hot            from the span pool
//   hot      ── try_mark_floating ── floating  by its owner: its list is empty, or its LAB ends
//   floating ── try_mark_reusable ── reusable  by any free, under the lock of the owner's set, with the insertion
//   reusable ── try_mark_hot ── hot            by its owner, under that lock, with the removal
//   reusable ── try_mark_floating ── floating  by its owner at its end, under that lock
//   floating ── try_mark_free ── free          by the free that empties it
//   reusable ── try_mark_free ── free          the same, under the lock of the set, with the removal
//
// Listing 3 first moves a span to reusable and then puts it into the set. In between, a second free can mark it free
// and give it to the pool, and then the set gets a span of another life through the same link. Here the transition is
// made under the set's lock, so a span is in a set exactly while it is reusable. Listing 3 also has no transition from
// floating to free, which spans of one block need.
//
// While a span is neither hot nor free, no thread takes blocks from it, so its number of free blocks only grows. A
// thread that reads an epoch, then counts all blocks free, and then wins the CAS from that epoch to free was therefore
// right, in whichever life of the span this happens; see FrontEnd::settle.
//
// The first page of a span is never given back. So threads that know only an earlier life of the span can read these
// fields at any time. All of them are atomic.
#pragma once

#include "base/atomic.hpp"
#include "papers/scalloc/size_class.hpp"

namespace coffer::scalloc {

enum class State : u8 { expected = 0, hot = 1, floating = 2, reusable = 4, free = 8 };

struct Block {
  Owned<Block*> next;
};

// The owner word: 16 bits of identity above the address of the LAB. 0 is nobody's.
using Owner = u64;
inline constexpr Owner kTerminated = 1;  // in a LAB: its threads have ended
inline constexpr u32 kIdentityShift = 48;

class Epoch {
 public:
  constexpr Epoch() = default;
  constexpr explicit Epoch(u64 word) : word_(word) {}
  constexpr State state() const { return static_cast<State>(word_ >> kStateShift); }
  constexpr Epoch next(State state) const {
    return Epoch(((word_ + 1) & kCounterMask) | static_cast<u64>(state) << kStateShift);
  }
  constexpr u64 word() const { return word_; }
  constexpr u64 counter() const { return word_ & kCounterMask; }
  constexpr bool operator==(const Epoch&) const = default;

 private:
  static constexpr u32 kStateShift = 60;
  static constexpr u64 kCounterMask = (u64{1} << kStateShift) - 1;
  u64 word_ = 0;
};

// The top of the remote list: 16 bits of count above the address of the first block.
struct RemoteTop {
  u64 word;
  Block* first() const { return reinterpret_cast<Block*>(word & low_mask(48)); }
  u32 count() const { return static_cast<u32>(word >> 48); }
  RemoteTop push(Block* block) const { return {reinterpret_cast<uptr>(block) | (static_cast<u64>(count()) + 1) << 48}; }
};

struct alignas(64) Span {
  // Line 0: read by every free, written at transitions.
  Atomic<u64> epoch;
  Atomic<Owner> owner;
  Owned<u32> size_class;
  Owned<u32> bytes;        // of a block
  Owned<u32> capacity;     // blocks
  Owned<u32> reuse_above;  // free blocks above which the span is reusable
  Atomic<u32> interior;    // 1: some block was handed out by an address inside of it (aligned requests)
  Owned<u32> real_span;    // index of the real-span size
  Atomic<u32> link;        // the next span of its stack in the span pool, as a number; 0: none
  Owned<u32> committed;    // bytes of the virtual span that can be touched

  // Line 1: written by the owner alone.
  alignas(64) Owned<Block*> local_first;
  Atomic<u32> local_count;  // free blocks on the local list and not yet carved
  Owned<u32> carved;        // blocks from here on have never been on a list in this life

  // Line 2: written by everyone else.
  alignas(64) Atomic<u64> remote;

  // Line 3: the reusable set, under its lock.
  alignas(64) Owned<Span*> newer;
  Owned<Span*> older;
  Owned<u32> purged;  // in the pool: its pages but the first were given back

  uptr base() const { return reinterpret_cast<uptr>(this); }
  Block* block(u32 index) const { return reinterpret_cast<Block*>(base() + kHeaderBytes + usize{index} * bytes.get()); }
  // The block that `address` points into.
  Block* block_around(uptr address) const {
    return block(static_cast<u32>((address - base() - kHeaderBytes) / bytes.get()));
  }
};
static_assert(sizeof(Span) <= kHeaderBytes);

// --- Transitions. Each returns false when the epoch is not `old` any more, and has then changed nothing. ---

// seq_cst, all: a free and a transition by the owner must not miss each other; see push_remote and push_local. The
// release in it publishes what was written before the transition; the acquire pairs with it.
inline Epoch load_epoch(const Span* span) { return Epoch(span->epoch.load(seq_cst)); }
inline bool try_mark(Span* span, Epoch old, State to) {
  u64 expected = old.word();
  const u64 desired = old.next(to).word();
  do {
    // seq_cst: as load_epoch. relaxed on failure: the caller loads again.
    if (span->epoch.compare_exchange(expected, desired, seq_cst, relaxed)) return true;
  } while (expected == old.word());  // a weak CAS may fail for no reason
  return false;
}
inline bool try_mark_hot(Span* span, Epoch old) { return try_mark(span, old, State::hot); }
inline bool try_mark_floating(Span* span, Epoch old) { return try_mark(span, old, State::floating); }
inline bool try_mark_reusable(Span* span, Epoch old) { return try_mark(span, old, State::reusable); }
inline bool try_mark_free(Span* span, Epoch old) { return try_mark(span, old, State::free); }

// --- Free lists. ---

// A new life in a size class: all blocks free, none carved. The span is expected or free, and its caller's alone.
void begin_life(Span* span, u32 size_class, u32 reuse_above, Owner owner);

// Puts the next blocks of the span, a page of them, on its empty local list, in the order of their addresses (section
// 7.6). By the owner. false: all are carved.
bool carve(Span* span);

// Takes a block off the local list. By the owner, while the span is hot. nullptr: the list is empty.
COFFER_INLINE Block* pop_local(Span* span) {
  Block* block = span->local_first.get();
  if (COFFER_UNLIKELY(block == nullptr)) return nullptr;
  span->local_first.set(block->next.get());
  // relaxed: others read the count only after the span has left this state, which publishes it.
  span->local_count.store(span->local_count.load(relaxed) - 1, relaxed);
  return block;
}

// A local free of a hot span: nobody acts upon its count.
COFFER_INLINE void push_local_hot(Span* span, Block* block) {
  block->next.set(span->local_first.get());
  compiler_fence();  // a fork child finds whole lists
  span->local_first.set(block);
  span->local_count.store(span->local_count.load(relaxed) + 1, relaxed);  // relaxed: as in pop_local
}

// A local free of a span that is not hot. The last local and the last remote free of a span may happen at one time, and
// one of them has to see the other: each adds its block first and counts then, all by seq_cst.
inline void push_local(Span* span, Block* block) {
  block->next.set(span->local_first.get());
  compiler_fence();
  span->local_first.set(block);
  span->local_count.fetch_add(1, seq_cst);  // seq_cst: pairs with free_blocks of whoever pushed to the other list
}

// A free by anyone else.
inline void push_remote(Span* span, Block* block) {
  RemoteTop top{span->remote.load(relaxed)};  // relaxed: a first guess for the CAS
  do {
    block->next.set(top.first());
    // seq_cst: pairs with free_blocks as above, and with the epoch: either the owner that makes the span floating
    // counts this block afterwards, or the caller sees it floating. Its release pairs with take_remotes. relaxed: as
    // above. No tag is needed: a top that came back with the same count stands for the same list (section 5).
  } while (!span->remote.compare_exchange(top.word, top.push(block).word, seq_cst, relaxed));
}

// Blocks free in the span. Exact when nobody frees or allocates meanwhile; never too high while the span stays floating
// or reusable.
inline u32 free_blocks(const Span* span) {
  // seq_cst, both: see push_local. They acquire what the frees wrote.
  const u32 local = span->local_count.load(seq_cst);
  return local + RemoteTop{span->remote.load(seq_cst)}.count();
}

// Moves all remotely freed blocks to the local list, by one exchange. By the owner, while the span is hot and its local
// list empty.
void take_remotes(Span* span);

// Sets the count of the local list by what is on it: for the child of a fork, whose parent had threads between a store
// to the list and one to the count. By the owner.
void recount_local(Span* span);

// The same as take_remotes, if there are more than the threshold (listing 2). false: nothing moved.
bool try_refill_from_remotes(Span* span);

}  // namespace coffer::scalloc
