// What can be done with a span: make it, cut it into blocks, push remotely freed blocks, take them, give it back.
//
// The life of a span. `owner` is the heap that may use the owner's line; in shared states nobody may, but whoever moves
// the span on. Every transition is one CAS on the remote word; the functions that make them are named.
//
//   state      owner   on list            who moves it on, and to what
//   free       none    -                  make_span: -> hot (its slots were claimed, nobody else can see it)
//   hot        heap    heap->hot[class]   owner, when no block is left: -> floating; at thread exit: -> reusable
//   floating   heap    heap->floating     owner, local frees reach the threshold: -> reusable
//                                         a remote push that reaches it: -> claimed (in the CAS of the push)
//   claimed    heap    floating, mailbox  the claimant mails it to its owner; the owner, taking its mail: -> reusable
//              none    -                  (the owner's thread ended first) the claimant: -> shared or listed
//   reusable   heap    heap->reusable     owner, needs blocks: -> hot; over its slack: -> shared or listed;
//                                         all blocks free: -> free
//   shared     none    -                  a push that reaches the threshold: -> listed, and lists it
//                                         a push that frees the last block: -> returning, and gives it back
//   listed     none    partial pool       an adopter, under the pool's lock: -> hot
//                                         a push that frees the last block: -> returning, takes it off, gives it back
//   returning  none    -                  whoever set it: -> free
#pragma once

#include "arena/arena.hpp"
#include "span/remote_word.hpp"

namespace coffer {

// --- Blocks and their place. ---

// A span starts on a slot, and block 0 lies in its first one.
inline uptr span_start(const Span* span) { return round_down(span->first_block, kSlotBytes); }
inline u32 span_bytes(const Span* span) { return u32{span->slots.get()} * static_cast<u32>(kSlotBytes); }

// The record that answers for a slot: that of its span's or large block's first slot; nullptr: the slot is free.
inline Span* first_record(Span* slot) {
  // relaxed: see describe_slots in span.cpp.
  switch (slot->use.load(relaxed)) {
    case SlotUse::span:
    case SlotUse::large:
      return slot;
    case SlotUse::span_rest:
    case SlotUse::large_rest:
      return slot - slot->first_distance.get();
    case SlotUse::none:
      break;
  }
  return nullptr;
}
inline bool is_large(const Span* span) { return span->use.load(relaxed) == SlotUse::large; }  // relaxed: as above

// True just when `address` is the start of one of the span's blocks (placement.hpp: BlockTest).
COFFER_INLINE bool is_block_start(const Span* span, uptr address) {
  return (address - span->first_block) * span->multiplier < span->limit;
}

// Blocks on the local list; exact for the owner, a snapshot for others.
inline u32 local_count(const Span* span) { return static_cast<u32>(span->countdown_sum.get() - span->countdown.get()); }
// Makes the countdown reach zero after `frees` more local frees; the local list is to hold `count` blocks now.
inline void set_countdown(Span* span, u32 count, u32 frees) {
  span->countdown_sum.set(static_cast<i32>(count + frees));
  span->countdown.set(static_cast<i32>(frees));
}
inline constexpr u32 kNever = 1u << 30;  // more local frees than a span has blocks

// Blocks that lie in absent pages: free, on no list.
inline u32 absent_count(const Span* span) { return span->capacity.get() - span->cut.get(); }

// --- Life. ---

// A new span of the class in state hot, no page cut; the caller becomes its owner. nullptr: no memory.
Span* make_span(ClassIndex size_class);
// Ends the span's life and gives its slots back. The caller holds it alone: no block is live, it is on no list, and
// its state is reusable (its owner calls) or returning.
void end_span(Span* span);

// Cuts the next absent page that a block starts in, in address order; returns its blocks as a list, nullptr when no
// absent page is left. *zero tells whether the blocks are zero but for their links. Owner only.
Block* cut_page(Span* span, bool* zero);

// --- The remote word. ---

// The order and its partner are the caller's to say.
inline RemoteWord load_word(const Span* span, std::memory_order order) { return RemoteWord(span->remote.load(order)); }

// What the thread whose push was just done has to do; nobody else will.
enum class PushDuty : u8 {
  none,         // nothing, and the span must not be touched any more
  mail,         // the span is claimed: mail it to its owner
  list,         // the span is listed: put it into the partial pool
  give_back,    // the span is returning, and was on no list
  take_off,     // the span is returning, and was listed
  double_free,  // nothing was pushed: the count would pass the capacity, or the block is already first
};
// Pushes `count` blocks, linked from first to last, all of this span.
PushDuty push_remote(Span* span, Block* first, Block* last, u32 count);

// Takes all remotely freed blocks of a private span: returns their list (nullptr: none) and their number. Owner only.
Block* take_remote(Span* span, u32* count);

// The owner's transitions. Each fails only if the span was claimed meanwhile (from floating), or, for `hot ->
// floating`, if remote blocks arrived: then there is something to allocate after all.
bool mark_floating(Span* span);    // hot -> floating
bool mark_reusable(Span* span);    // floating or hot -> reusable; false: claimed
void mark_hot(Span* span);         // reusable -> hot
void receive_claimed(Span* span);  // claimed -> reusable: by the owner, or by a claimant without one
// reusable -> shared or listed (listed when it has at least the threshold of free blocks), or nothing but the answer
// `empty` if all blocks are free. Afterwards the span is nobody's; with `listed`, the caller has to put it into the
// partial pool.
enum class ShareResult : u8 { shared, listed, empty };
ShareResult mark_shared(Span* span);
// shared -> listed although it has less than the threshold, but at least one free block: when memory is exhausted. The
// caller has to put it into the partial pool.
bool list_early(Span* span);
// listed -> hot, for an adopter under the pool's lock; false: it is returning.
bool mark_adopted(Span* span);

}  // namespace coffer
