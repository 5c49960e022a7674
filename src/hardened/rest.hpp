// SPDX-License-Identifier: MIT
// What a thread freed, and what its malloc takes next. One for each heap's record. Who has the record uses it, with no
// lock: other threads, and the fork child of another thread, do without what is there. To the heaps all of it is live.
//
//   up to 1 KiB:  free -> a row of 128 -> one of its 16 oldest, by lot -> a stack of the class -> malloc
//                                                 the stack is full or empty: 8 at once to and from the heap
//   longer:       free -> a queue of 128 blocks, or 128 KiB -> one of its 16 oldest, by lot -> the heap
//
// How long a block rests is so a matter of chance, but never less than what the queue holds beside those. What lies in
// a span of another heap goes from the row to the heaps. What the heap gives for a stack goes to a place in it by lot,
// so that malloc takes any of the free blocks that are at hand. Large blocks, whose pages are given back and closed,
// have a queue of their own.
//
// A fork child that finds a change half made loses a few blocks at most, and has none twice. When a thread ends,
// nothing of what it freed is here any longer.
#pragma once

#include <array>
#include <cstddef>

#include "exchange/record.hpp"
#include "hardened/canary.hpp"
#include "heap/heap.hpp"

namespace coffer::hardened {

inline constexpr usize kMostQuick = 1152;  // bytes of a class whose blocks go by the row and the stacks
inline constexpr u32 kQueue = 128;         // a power of two, here and in the row
inline constexpr u32 kOldestLog2 = 4;      // of how many of the oldest one leaves, by lot
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

// The blocks of a class, zero, that malloc takes next, from the top.
struct alignas(2 * kCacheLine) Stack {
  static constexpr u32 kMost = 15;
  Owned<u64> count;
  Owned<void*> blocks[kMost];
  // On top of the `have` that there are, fewer than kMost.
  COFFER_INLINE void push(u64 have, void* block) {
    blocks[have].set(block);
    compiler_fence();  // a fork child must not see the count before the block
    count.set(have + 1);
  }
};
static_assert(sizeof(Stack) == 2 * kCacheLine);

// Classes with a stack, in their order.
constexpr bool has_stack(ClassIndex size_class) { return class_bytes(size_class) <= kMostQuick; }
inline constexpr u32 kStacks = [] {
  u32 stacks = 0;
  for (ClassIndex c = 0; c < kClasses; ++c) stacks += has_stack(c) ? 1 : 0;
  return stacks;
}();
inline constexpr std::array<u8, kStacks> kClassOfStack = [] {
  std::array<u8, kStacks> classes{};
  for (u32 c = 0, i = 0; c < kClasses; ++c) {
    if (has_stack(c)) classes[i++] = static_cast<u8>(c);
  }
  return classes;
}();

// What malloc and free know of a class: the length of its blocks (here, for the span's record has it on a line that
// other threads write), and where its stack is, in bytes from the Rest's start; 0: it has none.
class Sized {
 public:
  // relaxed, all: all threads write the same, each before it reads it.
  void set(u32 block_bytes, u32 stack) {
    block_bytes_.store(block_bytes, relaxed);
    stack_.store(stack, relaxed);
  }
  COFFER_INLINE u32 block_bytes() const { return block_bytes_.load(relaxed); }  // relaxed: as set
  COFFER_INLINE u32 stack() const { return stack_.load(relaxed); }              // relaxed: as set

 private:
  Atomic<u32> block_bytes_, stack_;
};
struct alignas(kCacheLine) SizedTables {
  Sized classes[kClasses];
  // By what was asked for, in steps of 16 bytes: with the canary, and the least block.
  Sized requests[(kMostQuick + kQuantum - 1) / kQuantum + 1];
};
extern SizedTables g_sized __attribute__((visibility("hidden")));
inline usize block_bytes_of(u32 size_class) { return g_sized.classes[size_class].block_bytes(); }

struct Rest {
  // The row: blocks, and where the stack of each is. What lies in a span of another heap has one that is always full.
  struct Entry {
    Owned<void*> block;
    Owned<u64> stack;
    // A fork child may find it after any of the three steps: then either block has the full stack, and goes to the
    // heaps; none has that of another class.
    COFFER_INLINE void set(void* new_block, u64 of_stack);
  };
  static constexpr u32 kRowBytes = kQueue * sizeof(Entry);
  static_assert(sizeof(Entry) == 16);
  Entry row[kQueue];
  Owned<u64> row_first;  // the oldest, in bytes; counted on for ever
  Owned<u64> ended_at;   // row_first + 1 when all that was here went to the heaps; 0: more came from them

  // malloc's fast path serves requests of 1 to so many bytes. 0: somebody is told of what malloc takes from lists; or a
  // list of blocks may have some that are longer or shorter than those of their class.
  usize fast_sizes;
  u64 key;                                         // canary_key
  u64 random;                                      // odd
  Owned<usize> bytes, large_bytes, foreign_bytes;  // in the queues, and in the row; about, after a fork
  Queue<kQueue> queue;
  Queue<kLargeQueue> large;
  Stack full;
  Stack stacks[kStacks];

  Entry& entry_at(u64 offset) { return *reinterpret_cast<Entry*>(reinterpret_cast<char*>(row) + offset); }

  // visit(block, length), of the row, but for other heaps' blocks, and the stacks. Others may look meanwhile: what they
  // see may be gone.
  template <class Visit>
  void for_each_quick(Visit&& visit) const;
  // visit(block), of other heaps' blocks in the row. Owner only.
  template <class Visit>
  void for_each_foreign(Visit&& visit) const;
};
inline constexpr u32 kStacksAt = offsetof(Rest, stacks), kFullAt = offsetof(Rest, full);
static_assert(kFullAt < kStacksAt && kStacksAt <= 4096);

COFFER_INLINE void Rest::Entry::set(void* new_block, u64 of_stack) {
  stack.set(kFullAt);
  compiler_fence();
  block.set(new_block);
  compiler_fence();
  stack.set(of_stack);
}

template <class Visit>
void Rest::for_each_quick(Visit&& visit) const {
  const auto length_of_stack = [](u64 index) { return block_bytes_of(kClassOfStack[index]); };
  for (const Entry& entry : row) {
    void* const block = entry.block.get();
    const u64 at = entry.stack.get();
    if (block != nullptr && at >= kStacksAt) visit(block, length_of_stack((at - kStacksAt) / sizeof(Stack)));
  }
  for (u32 i = 0; i < kStacks; ++i) {
    const u64 count = stacks[i].count.get();
    for (u64 j = 0; j < count; ++j) visit(stacks[i].blocks[j].get(), length_of_stack(i));
  }
}
template <class Visit>
void Rest::for_each_foreign(Visit&& visit) const {
  for (const Entry& entry : row) {
    void* const block = entry.block.get();
    if (block != nullptr && entry.stack.get() == kFullAt) visit(block);
  }
}

// size + kCanaryBytes <= kMostQuick.
COFFER_INLINE const Sized& sized_of(usize size) {
  return g_sized.requests[(size + kCanaryBytes + kQuantum - 1) / kQuantum];
}
constexpr ClassIndex quick_class(usize size) {
  return compute_class(size + kCanaryBytes < kLeastBlock ? kLeastBlock : size + kCanaryBytes);
}

// The highest bits of a linear congruence (Knuth's multiplier): what nobody outside knows.
COFFER_INLINE u64 draw(Rest* rest) { return rest->random *= 6364136223846793005; }

// The calling thread's; nullptr: it has no heap, or there is no memory for one.
COFFER_COLD Rest* find_rest();
COFFER_INLINE Rest* own_rest() {
  Rest* const rest = t_heap->rest.get();
  return COFFER_LIKELY(rest != nullptr) ? rest : find_rest();
}

COFFER_INLINE bool is_quick(usize have) { return have <= kMostQuick + kCacheLine; }

COFFER_INLINE Stack* stack_at(Rest* rest, u64 bytes) {
  Stack* stack = reinterpret_cast<Stack*>(reinterpret_cast<char*>(rest) + bytes);
  COFFER_KEEP_IN_REGISTER(stack);  // or the address of each block is worked out anew
  return stack;
}

// Once in a while: whether malloc may go on without the heap.
void look_at_watches(Rest* rest);
// What leaves the row, and has no place on its stack.
void end_row(Rest* rest, void* block, Stack* stack);
void rest_and_look(Rest* rest, void* block, u64 of_stack);

// Takes in a freed block of a span of a class, `is_quick`, and gives malloc or the heaps what leaves for it. The row is
// full from the start, of nothing.
template <bool kLooks>
COFFER_INLINE void rest_quick(Rest* rest, void* block, u64 of_stack) {
  const u64 first = rest->row_first.get();
  const u64 oldest = first % Rest::kRowBytes;
  if (!kLooks && COFFER_UNLIKELY(oldest == 0)) return rest_and_look(rest, block, of_stack);
  rest->row_first.set(first + sizeof(Rest::Entry));
  // The highest bits; those below the size of an entry are cut off.
  const u64 lot = draw(rest) >> (64 - kOldestLog2 - 4);
  const u64 place = (first + sizeof(Rest::Entry) + lot) % Rest::kRowBytes / sizeof(Rest::Entry) * sizeof(Rest::Entry);
  Rest::Entry& old = rest->entry_at(oldest);
  Rest::Entry& other = rest->entry_at(place);
  void* const gone = other.block.get();
  Stack* const stack = stack_at(rest, other.stack.get());
  void* const moved = old.block.get();
  const u64 moved_stack = old.stack.get();
  old.set(block, of_stack);
  compiler_fence();  // so none is there twice
  other.set(moved, moved_stack);
  const u64 count = stack->count.get();
  if (COFFER_UNLIKELY(count == Stack::kMost)) return end_row(rest, gone, stack);
  stack->push(count, gone);
}

// The same of a block in a span of another heap.
inline void rest_foreign(Rest* rest, void* block, usize have) {
  rest->foreign_bytes.set(rest->foreign_bytes.get() + have);
  rest_quick<false>(rest, block, kFullAt);
}

// malloc's next block of a class, which is all zero; nullptr: there is none at hand.
COFFER_INLINE void* take_quick(Rest* rest, const Sized& sized) {
  Stack* const stack = stack_at(rest, sized.stack());
  const u64 count = stack->count.get();
  if (COFFER_UNLIKELY(count == 0)) return nullptr;
  stack->count.set(count - 1);
  void* const block = stack->blocks[count - 1].get();
  if (block == nullptr) __builtin_unreachable();  // saves a test
  return block;
}
// Fills the stack, which is empty, from the list of the heap. False: it has nothing either.
bool fill_stack(Rest* rest, u32 size_class);

// As rest_quick, of what is longer. `have`: its length.
void rest_block(Rest* rest, void* block, u32 size_class, usize have);
// The same for a thread that may have no quarantine. kNoClass: the block lies in no span of a class.
void rest_anyhow(void* block, u32 size_class, usize have);
// A fenced block, whole.
void rest_large(void* heaps_block);
// One that has rested, of least to most bytes, as few as there are; nullptr: there is none.
void* take_rested(usize least, usize most);
// Bytes of a block that rests in some heap's quarantine.
usize bytes_of(Resting resting);
// Of a live block of a span of a class.
usize length_of(const void* block);
// Of any heap, for walks; nullptr: it has none.
const Rest* rest_of(const Heap* heap);
// For reports: whether a block of a span of a class is here, in the calling thread's.
bool rests_here(const void* block);
// What rests in all heaps, about, if others are at work; of large blocks that only.
struct Resters {
  usize bytes, large_bytes, large_blocks;
};
Resters sum_of_rests();
// All that the calling thread's heap has here goes to the heaps. True if there was any.
bool end_all_rests();

}  // namespace coffer::hardened
