// SPDX-License-Identifier: MIT
// The quarantine: what a thread freed rests here before its heap has it back and may hand it out again. One for each
// heap's record. Who has the record uses it, with no lock: other threads, and the fork child of another thread, do
// without what rests there.
//
//   free -> a queue of kQueue blocks, or kQueueBytes -> one of its kOldest oldest, by lot -> the heap
//
// How long a block rests is so a matter of chance, but never less than what the queue holds beside those. Large blocks,
// whose pages are given back and closed, have a queue of their own.
//
// Each change ends with the store of one index, so that a fork child that finds a change half made loses a block at
// most. When a thread ends, nothing of what it freed rests any longer.
#pragma once

#include "exchange/record.hpp"

namespace coffer::hardened {

inline constexpr u32 kQueue = 128;  // a power of two
inline constexpr u32 kOldest = 16;  // the same
inline constexpr usize kQueueBytes = 128 * 1024;
inline constexpr u32 kLargeQueue = 16;  // a power of two
inline constexpr usize kLargeQueueBytes = usize{64} << 20;

// A block with its length; nullptr: a fork child lost it.
struct Resting {
  void* block;
  usize bytes;  // and the next one
};
// The block lies in no span of a class, so that nobody looks at it when its memory is handed out again.
inline constexpr usize kOfNoClass = usize{1} << 63;

template <u32 kLength>
class Queue {
 public:
  bool is_empty() const { return count() == 0; }
  bool is_full() const { return count() == kLength; }
  u32 count() const { return end_.get() - first_.get(); }
  // What it holds; too much, where a fork child found a change half made, until it is empty again.
  usize bytes() const { return bytes_.get() & ~kOfNoClass; }

  void push(Resting resting) {
    entries_[end_.get() % kLength] = resting;
    bytes_.set(bytes_.get() + resting.bytes);
    compiler_fence();  // see above
    end_.set(end_.get() + 1);
  }
  Resting pop() {
    const Resting resting = entries_[first_.get() % kLength];
    compiler_fence();
    first_.set(first_.get() + 1);
    bytes_.set(is_empty() ? 0 : bytes_.get() - resting.bytes);
    return resting;
  }
  // As push, into a full queue, of which the `place`-th oldest goes: the oldest gets its place, and the newest that of
  // the oldest. A fork child that finds this half made finds an empty place, and none twice.
  Resting exchange_at(u32 place, Resting newest) {
    const u32 first = first_.get();
    Resting& oldest = entries_[first % kLength];
    Resting& other = entries_[(first + place) % kLength];
    const Resting moved = oldest;
    oldest.block = nullptr;
    compiler_fence();
    Resting gone = moved;
    if (place != 0) {
      gone = other;
      other.block = nullptr;
      compiler_fence();
      other.bytes = moved.bytes;
      compiler_fence();
      other.block = moved.block;
    }
    bytes_.set(bytes_.get() + newest.bytes - gone.bytes);
    oldest.bytes = newest.bytes;
    compiler_fence();
    oldest.block = newest.block;
    compiler_fence();
    first_.set(first + 1);
    end_.set(first + 1 + kLength);
    return gone;
  }
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (u32 i = first_.get(); i != end_.get(); ++i) visit(entries_[i % kLength]);
  }

 private:
  static_assert((kLength & (kLength - 1)) == 0);
  Owned<u32> first_, end_;
  Owned<usize> bytes_;
  Resting entries_[kLength];
};

struct Rest {
  u64 random;
  Queue<kQueue> queue;
  Queue<kLargeQueue> large;
};
static_assert(sizeof(Rest) <= 4096);

// Takes a freed block in, and gives the heaps what leaves for it. of_class: it lies in a span of a class.
void rest(void* block, usize bytes, bool of_class);
void rest_large(void* block, usize bytes);
// Of any heap, for walks; nullptr: it has none.
const Rest* rest_of(const Heap* heap);
// What rests in all heaps, about, if others are at work; of large blocks that only.
struct Resters {
  usize bytes, large_bytes, large_blocks;
};
Resters sum_of_rests();
// All that the calling thread's heap has here goes to the heaps. True if there was any.
bool end_all_rests();

}  // namespace coffer::hardened
