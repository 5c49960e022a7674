// SPDX-License-Identifier: MIT
// What can be done with a span: make it, carve it into blocks, push remotely freed blocks, take them, give it back.
//
// The life of a span. `owner` is the heap that may use the owner's line; in shared states nobody may, but the thread
// that moves the span on. Every transition is one CAS on the remote word; the functions that make them are named.
//
//   state      owner   found by           who moves it on, and to what
//   free       none    -                  who claimed its slices, and nobody else can see it: -> owned, mixed
//   owned      heap    the heap, blocks   a remote push that reaches claim_at: -> claimed
//                                         the owner, to hand it on, end or convert it: -> claimed, by itself
//   claimed    heap    owner's mailbox    who takes the mail: -> owned; or hands it on or ends it
//              none    -                  its claimant: -> shared, listed, mixed or free
//   shared     none    its blocks         a push that reaches the threshold: -> listed, and lists it
//                                         a push that frees the last block gives it back: -> free
//   listed     none    partial pool       an adopter, under the pool's lock: -> owned; a look at its pages: -> claimed
//                                         a push that frees the last block takes it off and gives it back: -> free
//   mixed      none    its blocks, holes  its last block is freed: -> free (mixed/mixed.hpp); made so, or converted
//
// What an owned span is to its heap is the heap's own business: hot (malloc's blocks come from it: heap->hot), reusable
// (it has room, and stands on a ring: exchange/ring.hpp) or floating (neither; its frees find it).
//
// A shared or listed span all of whose blocks are free is returning: nobody holds a block of it, and the thread that
// pushed the last one alone goes on with it, or the inserter that comes second.
//
// The thread that makes a span claimed is its claimant, and alone moves it on, or hands that right on by a mailbox. The
// owner of a span in its mailbox may go on using it, but neither share nor end nor convert it.
//
// Model: models/span_life.pml.
#pragma once

#include "arena/block.hpp"
#include "span/remote_word.hpp"

namespace coffer {

// --- Blocks and their place. ---

// A span starts on a slice, and block 0 lies in its first one.
inline uptr span_start(const Span* span) { return round_down(span->first_block, kSliceBytes); }
inline u32 span_bytes(const Span* span) { return u32{span->slices.get()} * static_cast<u32>(kSliceBytes); }

// The record that answers for a slice: that of its span's first slice, or of a large block that begins there; nullptr:
// the slice is free, or a large block's later one.
inline Span* first_record(Span* slice) {
  // relaxed: see describe_slices in span.cpp.
  switch (slice->use.load(relaxed)) {
    case SliceUse::span:
    case SliceUse::large:
    case SliceUse::mixed:
      return slice;
    case SliceUse::span_rest:
      return slice - slice->first_distance.get();
    case SliceUse::none:
      break;
  }
  return nullptr;
}
inline bool is_large(const Span* span) { return span->use.load(relaxed) == SliceUse::large; }  // relaxed: as above
// Of a large block, or of each block of a span of a class.
inline usize usable_bytes(const Span* span) { return is_large(span) ? large_usable(span) : span->block_bytes.get(); }

// True just when `address`, which lies in one of the span's slices, is the start of one of its blocks (stride.hpp:
// BlockTest).
COFFER_INLINE bool is_block_start(const Span* span, uptr address) {
  return passes(address - span->first_block, span->multiplier, span->limit);
}
// The same for any address.
inline bool is_block_of(const Span* span, uptr address) {
  return address - span_start(span) < span_bytes(span) && is_block_start(span, address);
}

// How its blocks follow each other, and where they begin. Not from the plain fields: walks may look meanwhile.
inline Stride stride_of(const Span* span) { return {span->block_bytes.get(), span->row_log2.get()}; }
inline usize first_offset(const Span* span) { return span->first_line.get() * kCacheLine; }

// Whether the owner's frees go to the heap's list, which malloc pops from uncounted: the local list is empty.
inline bool feeds_malloc(const Span* span) { return span->freed.get() != &span->local_free; }
inline void keep_from_malloc(Span* span) { span->freed.set(&span->local_free); }
// Blocks on the local list; exact for the owner, a snapshot for others.
inline u32 local_count(const Span* span) {
  return feeds_malloc(span) ? 0 : static_cast<u32>(span->countdown_sum.get() - span->countdown.get());
}
// Makes the countdown reach zero after `frees` more local frees; the local list is to hold `count` blocks now.
inline void set_countdown(Span* span, u32 count, u32 frees) {
  span->countdown_sum.set(static_cast<i32>(count + frees));
  span->countdown.set(static_cast<i32>(frees));
}
inline constexpr u32 kNever = 1u << 30;  // more local frees than a span has blocks

// Blocks that lie in absent pages: free, on no list.
inline u32 absent_count(const Span* span) { return span->capacity.get() - span->carved.get(); }
// Free blocks of a shared span that are not on its remote list: the rest of its count. Nobody changes them while the
// span is nobody's.
inline u32 shared_base(const Span* span) { return local_count(span) + absent_count(span); }
// What they are in bytes: what was free when the span became shared, as class_use.hpp counts.
inline usize shared_base_bytes(const Span* span) { return usize{shared_base(span)} * span->block_bytes.get(); }

// Calls visit(page, from, to) for each page in the mask in which a block starts, in address order: blocks from .. to -
// 1 start there.
template <class Visit>
void for_each_page(const Span* span, u64 pages, Visit&& visit) {
  const usize first = first_offset(span);
  const Stride stride = stride_of(span);
  // A walk may come to the record of a span that ended meanwhile, and of a mixed one nobody knows how long blocks are.
  if (stride.bytes == 0) return;
  for (; pages != 0; pages &= pages - 1) {
    const u32 page = lowest_bit(pages);
    const usize start = page * kCarvePage;
    const usize end = start + kCarvePage;
    const usize from = start <= first ? 0 : stride.at_or_after(start - first);
    usize to = end <= first ? 0 : stride.at_or_after(end - first);
    if (to > span->capacity.get()) to = span->capacity.get();
    if (from < to) visit(page, static_cast<u32>(from), static_cast<u32>(to));
  }
}

inline Block* block_at(const Span* span, u32 index) {
  return reinterpret_cast<Block*>(span->first_block + stride_of(span).offset(index));
}

// What is known of absent pages: nothing; that they are zero; that blocks lay there, and they were not purged since.
enum class AbsentPages : u8 { unknown, zero, resident };
inline AbsentPages absent_are(const Span* span) { return static_cast<AbsentPages>(span->absent_are.get()); }
inline void set_absent_are(Span* span, AbsentPages what) { span->absent_are.set(static_cast<u8>(what)); }

// Pages of the span that a block which is not absent can have touched; the others are as they were when the span was
// made, or were purged, or belong to slices that count as dirty (order.cpp).
u64 touched_pages(const Span* span);
// The slices of a span that may be resident: those that were so when it began (and were not purged whole since), and
// those that blocks touched.
u64 dirty_slices(const Span* span);
// Pages that nobody wrote to since they were last known to be zero.
u64 untouched_pages(const Span* span);

// --- Life. ---

// Which block of a span is carved first: one that is chosen for its cache index (span/colour.hpp), or block 0.
enum class Start : u8 { coloured, first };
// A new span of the class, owned by `owner`, as its hot one, no page carved. nullptr: no memory.
Span* make_span(ClassIndex size_class, Heap* owner, Start start = Start::coloured);
// Ends the span's life and gives its slices back. The caller holds it alone: no block is live, it is on no list, and
// it is claimed (its claimant calls) or returning.
void end_span(Span* span);

// Blocks that are linked from the first to the last one.
struct Linked {
  Block *first = nullptr, *last = nullptr;
};
// Cuts the next absent page that a block starts in, in address order from the page that the span's colour says, and on
// from the first; once a page is carved, and of slices that were resident before, the pages behind it, too, up to a few
// blocks (of a span that is carved again at once, and kCarvedResident). None: no absent page is left. *zero tells
// whether the blocks are zero but for their links; the last one has none, so that a block alone, which is for malloc's
// caller, is not written to: the program takes the page fault. (The hardened build writes it.) Owner only.
Linked carve_blocks(Span* span, bool* zero);

// --- The remote word. ---

// The order and its partner are the caller's to say.
inline RemoteWord load_word(const Span* span, std::memory_order order) { return RemoteWord(span->remote.load(order)); }
// Free blocks of the span, on both lists and in absent pages; of a hot one without what its heap's list has. Exact for
// the owner, and of shared spans. The order as above.
inline u32 free_blocks(const Span* span, std::memory_order order) {
  const RemoteWord word = load_word(span, order);
  return is_shared(word.state()) ? word.count() : shared_base(span) + word.count();
}

// What the thread whose push was just done has to do; nobody else will.
enum class PushDuty : u8 {
  none,         // nothing, and the span must not be touched any more
  claimed,      // the span is claimed: mail it to its owner (exchange/mail.hpp)
  list,         // the span is listed: put it into the partial pool
  give_back,    // the span is returning (all its blocks are free), and on no list: end it
  take_off,     // the same of a listed one: take it off the list, and end it
  mixed,        // nothing was pushed: the span is a mixed one by now; free the blocks there, one by one
  double_free,  // nothing was pushed: the count would pass the capacity, or the block is already first
};
// Pushes `count` blocks, linked from first to last, all of this span.
PushDuty push_remote(Span* span, Block* first, Block* last, u32 count);

// Takes all remotely freed blocks of a private span: returns their list (nullptr: none) and their number. Owner only.
Block* take_remote(Span* span, u32* count);

// The owner looked at its span; each sets claim_at, the count at which a push claims the span, by the count of the very
// word that is replaced: what a push did meanwhile is never missed. false, or claimed: the span is in the mailbox or on
// its way there, and nothing was changed. (Others may claim it at any time after.)
enum class Retired : u8 { floating, has_blocks, claimed };
Retired mark_floating(Span* span);  // it is used up. has_blocks: remote blocks arrived, and the span stays hot
bool mark_reusable(Span* span);     // the local list is settled
void raise_claim(Span* span);       // it gets hot: never lower

// owned -> claimed, without a push. false: a push was quicker.
bool claim(Span* span);
// claimed -> owned: by who took it out of the mailbox.
void receive_claimed(Span* span);
// claimed -> shared or listed (listed when it has at least the threshold of free blocks), or nothing but the answer
// `empty` if all blocks are free. By the claimant, when nobody can be writing the owner's line. Afterwards the span is
// nobody's; with `listed`, the caller has to put it into the partial pool.
enum class ShareResult : u8 { shared, listed, empty };
ShareResult mark_shared(Span* span);
// When memory is exhausted: shared -> listed although it has less than the threshold, but at least one free block; then
// the caller has to put it into the partial pool. One without a free block is listed by the next push.
bool list_early(Span* span);
// listed -> claimed, without an owner; for whoever looks at its pages, under the pool's lock. false: it is returning.
bool mark_looked_at(Span* span);
// listed -> owned, by `heap` from that moment on; for an adopter under the pool's lock. false: it is returning.
bool mark_adopted(Span* span, Heap* heap);

}  // namespace coffer
