// SPDX-License-Identifier: MIT
// The remote word of a span: one atomic 64-bit word that every thread but the owner works on. A push and the decision
// that follows from it are one CAS. If the decision came later, two threads could take one span.
//
//   63        42 41    38 37            20 19                0
//   | tag (22)  | state  | count (18)     | first (20)        |
//
//   first  block at the head of the remote list: 1 + its offset from the span's start in 16-byte units; 0 is none
//   count  private states: blocks on the remote list
//          shared states: all free blocks of the span (shared_base() + blocks on the remote list). When all blocks are
//          free, the span is returning: no thread holds a block, and only the thread that pushed the last one goes on
//          with the span
//   state  SpanState
//   tag    grows whenever the record begins a new life or gets another claim_at, so that an old value of the word
//          never matches
//
// The word has no pointer, so that it is one CAS wide. The link of the last block ends the list, not the count.
#pragma once

#include "arena/descriptor.hpp"

namespace coffer {

// Who may change what in which state: see the table in span/span.hpp.
enum class SpanState : u8 {
  free = 0,
  owned = 1,
  claimed = 2,
  shared = 3,
  listed = 4,
  mixed = 5,  // blocks of any size: pushes go to mixed/mixed.hpp
};
inline constexpr u32 kSpanStates = 6;

constexpr bool is_private(SpanState state) { return state == SpanState::owned || state == SpanState::claimed; }
constexpr bool is_shared(SpanState state) { return state == SpanState::shared || state == SpanState::listed; }

// All moves from state to state, and the functions that make them. What the documents, the models and the tests list is
// compared with this (test/tidy/test_documents.py, test/unit/span/moves_test.cpp).
struct Move {
  SpanState from, to;
  const char* made_by;
};
inline constexpr Move kMoves[] = {
    {SpanState::free, SpanState::owned, "make_span"},
    {SpanState::owned, SpanState::owned, "mark_floating"},  // here and below: another claim_at
    {SpanState::owned, SpanState::owned, "mark_reusable"},
    {SpanState::owned, SpanState::owned, "take_remote"},
    {SpanState::claimed, SpanState::claimed, "take_remote"},
    {SpanState::owned, SpanState::claimed, "push_remote"},
    {SpanState::owned, SpanState::claimed, "claim"},
    {SpanState::claimed, SpanState::owned, "receive_claimed"},
    {SpanState::claimed, SpanState::shared, "mark_shared"},
    {SpanState::claimed, SpanState::listed, "mark_shared"},
    {SpanState::claimed, SpanState::mixed, "mark_mixed"},
    {SpanState::claimed, SpanState::free, "end_span"},
    {SpanState::shared, SpanState::listed, "push_remote"},
    {SpanState::shared, SpanState::listed, "list_early"},
    {SpanState::shared, SpanState::shared, "list_early"},
    {SpanState::shared, SpanState::free, "end_span"},
    {SpanState::listed, SpanState::owned, "mark_adopted"},
    {SpanState::listed, SpanState::claimed, "mark_looked_at"},
    {SpanState::listed, SpanState::free, "end_span"},
    {SpanState::free, SpanState::mixed, "make"},  // MixedPool's, both
    {SpanState::mixed, SpanState::free, "end"},
};

class RemoteWord {
 public:
  static constexpr u32 kFirstBits = 20, kCountBits = 18, kStateBits = 4;
  static constexpr u32 kMaxCount = (1u << kCountBits) - 1;

  constexpr explicit RemoteWord(u64 bits) : bits_(bits) {}
  static constexpr RemoteWord make(u32 tag, SpanState state, u32 count, u32 first) {
    return RemoteWord((u64{tag} << (kFirstBits + kCountBits + kStateBits)) |
                      (u64{static_cast<u8>(state)} << (kFirstBits + kCountBits)) | (u64{count} << kFirstBits) | first);
  }

  constexpr u64 bits() const { return bits_; }
  constexpr u32 first() const { return static_cast<u32>(bits_ & low(kFirstBits)); }
  constexpr u32 count() const { return static_cast<u32>((bits_ >> kFirstBits) & low(kCountBits)); }
  constexpr SpanState state() const {
    return static_cast<SpanState>((bits_ >> (kFirstBits + kCountBits)) & low(kStateBits));
  }
  constexpr u32 tag() const { return static_cast<u32>(bits_ >> (kFirstBits + kCountBits + kStateBits)); }

  constexpr RemoteWord with(SpanState state, u32 count, u32 first) const { return make(tag(), state, count, first); }
  constexpr RemoteWord with_state(SpanState state) const { return with(state, count(), first()); }
  // The word of an owned span whose claim_at changes. The tag moves on, so that a push which decided by the one before
  // fails.
  constexpr RemoteWord owned() const { return owned(count()); }
  // The same with another count: for adopters.
  constexpr RemoteWord owned(u32 count) const { return make(next_tag(), SpanState::owned, count, first()); }
  // The word of a private span of which all remote blocks were taken, and whose claim_at changes.
  constexpr RemoteWord taken() const { return make(next_tag(), state(), 0, 0); }
  // The word of a shared span whose claim_at changes.
  constexpr RemoteWord watched() const { return make(next_tag(), state(), count(), first()); }
  // The word of the record's next life.
  constexpr RemoteWord next_life(SpanState state) const { return make(next_tag(), state, 0, 0); }

 private:
  constexpr u32 next_tag() const { return (tag() + 1) & ((1u << (64 - kFirstBits - kCountBits - kStateBits)) - 1); }
  static constexpr u64 low(u32 bits) { return (u64{1} << bits) - 1; }
  u64 bits_;
};

static_assert(kSpanStates == static_cast<u32>(SpanState::mixed) + 1 && kSpanStates <= 1u << RemoteWord::kStateBits);
static_assert(kMaxSpanSlices * kSliceBytes / kQuantum < (1u << RemoteWord::kFirstBits));
static_assert(kMaxSpanSlices * kSliceBytes / kQuantum <= RemoteWord::kMaxCount);
static_assert(RemoteWord::make(7, SpanState::listed, 123, 456).with_state(SpanState::owned).bits() ==
              RemoteWord::make(7, SpanState::owned, 123, 456).bits());

}  // namespace coffer
