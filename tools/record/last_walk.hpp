// SPDX-License-Identifier: MIT
// What a thread's last walk up its stack found. Most of a stack is the same from one malloc to the next: where a walk
// comes to a frame that the last one came to, too, with the same registers, and all that the last one read from there
// on has not changed, the rest is known. That is exact: a walk is a function of registers and of the words it reads.
//
//   entries_   0: the outermost, up to size_ - 1: the innermost, whose sp is lowest
//   a frame's pc was read at sp - 8, its bp at bp_cell (0: not read, it follows from the frame below)
//
// Entries are believed only as far as they were compared just now; what lies behind them may be of an older walk.
#pragma once

#include <atomic>

#include "record/unwind.hpp"

namespace coffer::record {

inline constexpr u64 kNotFixed = ~u64{0};  // as bp_cell: more was read than is kept here

struct WalkedFrame {
  u64 pc = 0, sp = 0, bp = 0, bp_cell = 0;
};

inline constexpr u64 kStackSeed = 0x9E3779B97F4A7C15u;
inline u64 stack_hash(u64 outer, u64 pc) {
  const u64 mixed = (outer ^ pc) * 0xD6E8FEB86659FD93u;
  return mixed ^ mixed >> 32;
}

class LastWalk {
 public:
  static constexpr u32 kMost = trace::kMaxFrames + 1;  // with the end of the stack
  static constexpr u64 kLeastCode = 4096;              // a lower address is no function's: the walk ended there

  // Before a walk on this stack, by these tables: of another stack or other tables nothing is known.
  void begin(StackBounds bounds, u32 tables) {
    at_ = bounds.low == bounds_.low && bounds.high == bounds_.high && tables == tables_ ? size_ : 0;
    bounds_ = bounds;
    tables_ = tables;
  }

  // Frames are asked for from the innermost on. How many entries hold for this frame and those outside it, if `wanted`
  // of them do, or all that there are to the end of the stack; 0: not known.
  u32 known(u64 pc, u64 sp, u64 bp, u32 wanted) {
    while (at_ != 0 && entries_[at_ - 1].frame.sp < sp) --at_;
    if (at_ == 0 || (at_ < wanted && !is_whole_)) return 0;
    const WalkedFrame& same = frame(at_ - 1);
    if (same.sp != sp || same.pc != pc || same.bp != bp) return 0;
    const u32 last = at_ > wanted ? at_ - wanted : 0;
    for (u32 i = at_ - 1; i-- > last;) {
      const WalkedFrame& outer = frame(i);
      if (word(outer.sp - 8) != outer.pc) return 0;
      if (outer.bp_cell != 0 && (outer.bp_cell == kNotFixed || word(outer.bp_cell) != outer.bp)) return 0;
    }
    return at_;
  }

  const WalkedFrame& frame(u32 index) const { return entries_[index].frame; }

  // The first `kept` entries stay; `inner` are new, the innermost first. is_whole: the outermost of these is the end of
  // the stack, unless entries are kept. What there is no room for are the outermost, and some more.
  void keep(u32 kept, const WalkedFrame* inner, u32 count, bool is_whole) {
    if (kept == 0) is_whole_ = is_whole;
    if (kept + count > kMost) kept = forget_outermost(kept, count);
    u64 hash = kept == 0 ? kStackSeed : entries_[kept - 1].hash;
    for (u32 i = 0; i < count; ++i) {
      const WalkedFrame& frame = inner[count - 1 - i];
      if (frame.pc >= kLeastCode) hash = stack_hash(hash, frame.pc);
      entries_[kept + i] = {frame, hash};
    }
    size_ = kept + count;
  }
  void forget() { size_ = 0; }

  // The hash of all return addresses up to the end of the stack, if that is known (is_whole).
  u64 hash() const { return entries_[size_ - 1].hash; }
  bool is_whole() const { return is_whole_ && size_ != 0; }

 private:
  struct Entry {
    WalkedFrame frame;
    u64 hash = 0;  // of the return addresses from the outermost to this
  };

  static u64 word(u64 address) { return *reinterpret_cast<const u64*>(address); }

  // Half of the room at a time, so that a deep recursion does not move them at each call.
  u32 forget_outermost(u32 kept, u32 count) {
    const u32 room = kMost - count, stay = room < kMost / 2 ? room : kMost / 2;
    const u32 left = kept < stay ? kept : stay;
    for (u32 i = 0; i < left; ++i) entries_[i] = entries_[kept - left + i];
    is_whole_ = false;
    return left;
  }

  u32 size_ = 0, at_ = 0, tables_ = 0;
  bool is_whole_ = false;
  StackBounds bounds_;
  Entry entries_[kMost];
};

// What a thread needs for walks. It lies in no stack, for that may be small: a coroutine's, or a signal handler's. All
// zeros at first.
class Walker {
 public:
  // false: somebody is in the middle of a walk, who was interrupted by a signal. Else leave() has to follow.
  bool enter() {
    if (busy_) return false;
    busy_ = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // a handler sees that before it sees anything half written
    return true;
  }
  void leave() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    busy_ = false;
  }

  LastWalk last;
  u64 frames[trace::kMaxFrames];       // the walk's result, the innermost first
  WalkedFrame inner[LastWalk::kMost];  // what of it was not known
  char text[4096];                     // of /proc/self/maps

 private:
  volatile bool busy_;
};

}  // namespace coffer::record
