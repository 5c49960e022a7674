// SPDX-License-Identifier: MIT
// The quarantine: what a thread freed rests here before its heap has it back and may hand it out again. One for each
// heap's record. Who has the record uses it, with no lock: other threads, and the fork child of another thread, do
// without what rests there.
//
//   free -> a queue of kQueue blocks, or kQueueBytes -> one of its 16 oldest, by lot -> the heap
//
// How long a block rests is so a matter of chance, but never less than what the queue holds beside those. Large blocks,
// whose pages are given back and closed, have a queue of their own.
//
// A fork child that finds a change half made loses a block at most, and has none twice. When a thread ends, nothing of
// what it freed rests any longer.
#pragma once

#include "exchange/record.hpp"

namespace coffer::hardened {

inline constexpr u32 kQueue = 128;     // a power of two
inline constexpr u32 kOldestLog2 = 4;  // of how many of the oldest one leaves, by lot
inline constexpr usize kQueueBytes = 128 * 1024;
inline constexpr u32 kLargeQueue = 32;    // a power of two
inline constexpr u32 kLargeResting = 16;  // the newest of them; the others may be used again where they are
inline constexpr usize kLargeQueueBytes = usize{64} << 20;

// A block that rests, in one word, so that a fork child finds all of it or nothing: its address, and the class of its
// span in the highest byte, which is 0 in addresses (arena/block.hpp).
class Resting {
 public:
  // The block lies in no span of a class, so that nobody looks at it when its memory is handed out again.
  static constexpr u32 kNoClass = 255;
  static_assert(kClasses <= kNoClass);

  explicit Resting(u64 word) : word_(word) {}
  Resting(const void* block, u32 size_class) : word_(reinterpret_cast<uptr>(block) | u64{size_class} << 56) {}
  u64 word() const { return word_; }
  void* block() const { return reinterpret_cast<void*>(word_ & low_mask(56)); }
  u32 size_class() const { return static_cast<u32>(word_ >> 56); }

 private:
  u64 word_;
};

template <u32 kLength>
class Queue {
 public:
  bool is_empty() const { return count_.get() == 0; }
  bool is_full() const { return count_.get() == kLength; }
  u32 count() const { return count_.get(); }

  void push(Resting resting) {
    entry(count_.get()).set(resting.word());
    compiler_fence();  // see above
    count_.set(count_.get() + 1);
  }
  // Takes out the `place`-th oldest, whose place the oldest gets.
  Resting pop_at(u32 place) {
    const u64 moved = entry(0).get();
    const Resting gone(entry(place).get());
    Owned<u64>& other = entry(place);
    // Of a change half made a fork child lacks the newest one, or the oldest.
    count_.set(count_.get() - 1);
    compiler_fence();
    first_.set(first_.get() + 1);
    compiler_fence();
    other.set(moved);
    return gone;
  }
  // As push, into a full queue, of which the `place`-th oldest goes, and the oldest gets its place. 1 <= place: so none
  // is there twice at any time.
  COFFER_INLINE Resting exchange_at(u32 place, Resting newest) {
    const u32 first = first_.get();
    first_.set(first + 1);
    Owned<u64>& oldest = entries_[first % kLength];
    Owned<u64>& other = entries_[(first + place) % kLength];
    const u64 moved = oldest.get();
    const Resting gone(other.get());
    compiler_fence();
    oldest.set(newest.word());
    compiler_fence();
    other.set(moved);
    return gone;
  }
  Resting at(u32 place) const { return Resting(entries_[(first_.get() + place) % kLength].get()); }
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (u32 i = 0; i < count_.get(); ++i) visit(at(i));
  }

 private:
  static_assert((kLength & (kLength - 1)) == 0);
  Owned<u64>& entry(u32 place) { return entries_[(first_.get() + place) % kLength]; }

  Owned<u32> first_, count_;
  Owned<u64> entries_[kLength];
};

struct Rest {
  // malloc's fast path serves requests of 1 to so many bytes. 0: a list of blocks may have some that are longer or
  // shorter than those of their class.
  usize fast_sizes;
  u64 random;
  Owned<usize> bytes, large_bytes;  // in the queues; about, after a fork
  // By class: here, for the span's record has it on a line that other threads write.
  u32 block_bytes[kClasses];
  Queue<kQueue> queue;
  Queue<kLargeQueue> large;
};
static_assert(sizeof(Rest) <= 4096);

// The calling thread's; nullptr: it has no heap, or there is no memory for one.
COFFER_COLD Rest* find_rest();
COFFER_INLINE Rest* own_rest() {
  Rest* const rest = t_heap->rest.get();
  return COFFER_LIKELY(rest != nullptr) ? rest : find_rest();
}

// Takes in a freed block of a span of a class, and gives the heaps what leaves for it. `have`: its length.
void rest_block(Rest* rest, void* block, u32 size_class, usize have);
// The same for a thread that may have no quarantine. kNoClass: the block lies in no span of a class.
void rest_anyhow(void* block, u32 size_class, usize have);
// A fenced block, whole.
void rest_large(void* heaps_block);
// One that has rested, of least to most bytes, as few as there are; nullptr: there is none.
void* take_rested(usize least, usize most);
// Bytes of a block that rests in some heap's quarantine.
usize bytes_of(const Rest* rest, Resting resting);
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
