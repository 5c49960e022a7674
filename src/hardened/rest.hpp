// SPDX-License-Identifier: MIT
// The quarantine: what a thread freed rests here before its heap has it back and may hand it out again. One for each
// heap's record. Who has the record uses it, with no lock: other threads, and the fork child of another thread, do
// without what rests there.
//
//   free -> one of kPlaces by lot, whose block goes on -> the queue, first in first out -> the heap
//
// How long a block rests is so a matter of chance, but never less than what the queue holds. Large blocks, whose pages
// are given back and closed, have a queue of their own.
//
// Each change ends with the store of one index, so that a fork child that finds a change half made loses a block at
// most. When a thread ends, nothing of what it freed rests any longer.
#pragma once

#include "exchange/record.hpp"

namespace coffer::hardened {

inline constexpr u32 kPlaces = 64;
inline constexpr u32 kQueue = 128;           // a power of two
inline constexpr usize kPlacedBytes = 1024;  // a longer block goes to the queue at once
inline constexpr usize kQueueBytes = 64 * 1024;
inline constexpr u32 kLargeQueue = 16;  // a power of two
inline constexpr usize kLargeQueueBytes = usize{64} << 20;

// A block with its length; nullptr: none.
struct Resting {
  void* block;
  usize bytes;
};

template <u32 kLength>
class Queue {
 public:
  bool is_empty() const { return count() == 0; }
  bool is_full() const { return count() == kLength; }
  u32 count() const { return end_.get() - first_.get(); }
  // What it holds; too much, where a fork child found a change half made, until it is empty again.
  usize bytes() const { return bytes_.get(); }

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
  Resting places[kPlaces];
  Queue<kQueue> queue;
  Queue<kLargeQueue> large;
};
static_assert(sizeof(Rest) <= 4096);

// The calling thread's; nullptr: it has no heap, or there is no memory for one.
Rest* own_rest();
// The same of any heap, for walks.
Rest* rest_of(const Heap* heap);

// Takes a freed block in, and gives the heaps what leaves for it.
void rest(void* block, usize bytes);
void rest_large(void* block, usize bytes);
// What rests in all heaps, about, if others are at work; of large blocks that only.
struct Resters {
  usize bytes, large_bytes, large_blocks;
};
Resters sum_of_rests();
// All that the calling thread's heap has here goes to the heaps. True if there was any.
bool end_all_rests();

}  // namespace coffer::hardened
