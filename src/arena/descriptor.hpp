// SPDX-License-Identifier: MIT
// The records that the arena keeps for its memory: one Span for each slice, one Chunk for each chunk, one Group for 64
// chunks. They lie outside the blocks, at a place computed from the address, so that a program that overruns a block
// cannot reach them. Zero bytes are each record's initial state: "nothing here".
//
//   arena:  | chunk 0 (64 slices of 32 KiB)            | chunk 1 ...
//   spans:  | Span 0 | Span 1 | ... | Span 63 |        128 bytes a slice; a span of several slices uses its first
//   chunks: | Chunk 0 | Chunk 1 | ...                  64 bytes a chunk
//   groups: | Group 0 (chunks 0..63) | ...             128 bytes a group
#pragma once

#include "base/atomic.hpp"
#include "cpu/cpu.hpp"
#include "size_class/placement.hpp"

namespace coffer {

struct Heap;  // exchange/record.hpp: here only a name for an owner

inline constexpr bool kMisuseChecks =
#ifdef COFFER_NO_CHECKS
    false;
#else
    true;
#endif

// A free block on a list: its first word links it to the next one, its second signs the link (arena/block.hpp). The
// rest is whatever the program left there.
struct Block {
  Block* link;
  uptr mark;
};
static_assert(sizeof(Block) <= kQuantum, "the smallest block holds both");

// What stands at the end of each list, so that malloc need not ask whether there is a block: the mark of this one is
// wrong for every key.
extern Block g_list_end __attribute__((visibility("hidden")));
inline constexpr Block* kListEnd = kMisuseChecks ? &g_list_end : nullptr;

// A list of free blocks.
class BlockList {
 public:
  constexpr BlockList() : first_(kListEnd) {}

  // nullptr: it is empty. So is one of zero bytes: in a record that nobody has used yet.
  Block* get() const {
    Block* first = first_.get();
    return first == kListEnd ? nullptr : first;
  }
  void set(Block* first) { first_.set(first == nullptr ? kListEnd : first); }

  // As it stands, for the fast paths: an empty one leads to kListEnd.
  COFFER_INLINE Block* first() const { return first_.get(); }
  COFFER_INLINE void set_first(Block* first) { first_.set(first); }

 private:
  Owned<Block*> first_;
};

using SpanNumber = u32;  // 1 + index of a slice, counted over all arenas; 0 is none

// What the record of a slice describes. The states of a span in use are in its remote word (span/remote_word.hpp).
enum class SliceUse : u8 {
  none = 0,       // free, or never used
  span = 1,       // first slice of a span of a size class
  span_rest = 2,  // a later slice of one: `first_distance` slices after its first
  large = 3,      // first slice of a large block made of slices, or of whole chunks; its later ones are none
  mixed = 4,      // first slice of a mixed span (mixed/mixed.hpp); its later slices are span_rest
};

struct alignas(kCacheLine) Span {
  constexpr Span() {}  // for tests; in an arena records begin as zero bytes

  // --- The owner's line: everything a local free reads or writes, and all that a remote one reads. ---
  Atomic<Heap*> owner;  // heap the span is private to; null: shared, free, or not a first slice
  // Where the owner's thread puts what it frees, last first: the heap's list while the span is hot, so that malloc
  // takes what was freed last; else, and while lists are watched, local_free.
  Owned<BlockList*> freed;
  BlockList local_free;
  // Which of two there is says `use`, here and below.
  union {
    Owned<u32> carved{};    // span: blocks carved so far; capacity - carved lie in absent pages
    Owned<u32> live_units;  // mixed: units (kQuantum) in use
  };
  // What the slice is. Here, for a free by another thread asks it, too, and reads nothing else that others write.
  Atomic<SliceUse> use;
  Owned<u8> first_distance;  // span_rest: slices back to the first
  Owned<u8> size_class;
  Owned<u8> slices;  // slices of the span
  // Plain: written while no block of the span exists, read by whoever holds one.
  uptr first_block;  // address of block 0, or of the large block
  u64 multiplier;    // BlockTest of the class; limit 0 rejects every pointer (free spans)
  u64 limit;
  // Behind the limit, so that aarch64 loads both at once.
  Owned<i32> countdown;      // local frees left until something must happen
  Owned<i32> countdown_sum;  // blocks freed there + countdown: so the count costs no instruction of its own

  // --- The shared line: what others write. ---
  Atomic<u64> remote;            // RemoteWord: first remotely freed block, count, state, tag
  Atomic<SpanNumber> mail_next;  // link in an owner's mailbox
  Owned<u32> pool_note;          // partial pool: when the span was put in, and with how much (pool/partial_pool.hpp)
  Owned<SpanNumber> next, previous;  // list of the partial pool; under its lock
  Owned<u32> block_bytes;            // usable bytes of a block; large blocks: see large_usable
  Owned<u32> capacity;               // blocks in the span
  Atomic<u32> claim_at;              // count in the remote word at which a push moves the span on: claims an owned one,
                                     // lists a shared one
  // span: its owner's ring of reusable spans of its class (exchange/ring.hpp); ring_next is 0: it stands on none.
  union {
    Owned<SpanNumber> ring_next{};
    Owned<u32> large_chunks;  // large: chunks it takes; 0: it is made of slices
  };
  Owned<SpanNumber> ring_previous;
  Owned<u32> ring_slack;            // free bytes that the heap of the ring counts for the span
  Owned<u8> shard;                  // shard of the partial pool; fixed while the span lives
  Owned<u8> listed;                 // what next and previous are worth: PartialPool's duty flags; the same lock
  Owned<u8> absent_are;             // what is known of absent pages (AbsentPages)
  Owned<u8> dirty_slices_at_start;  // slices that held old data when the span was made
  Owned<u8> row_log2;               // Stride: how the blocks follow each other
  Owned<u8> first_line;             // lines from the span's start to block 0
  Owned<u8> start_index;            // cache index of the block that is carved first, about (span/colour.hpp)
  Owned<u8> quiet;                  // mixed: looks of the reclaimer since it was used (mixed/map_of.hpp)
  union {
    // span: bit i: page i is not carved into blocks; what starts there is free and on no list. mixed: is not resident
    Owned<u64> absent{};
    Owned<usize> run_bytes;  // large: see large_bytes
  };
};
static_assert(sizeof(Span) == 2 * kCacheLine);

// Of a large block: the bytes from its first slice's start to its end; its offset there, which is its colour (less than
// a slice); and what lies behind that, which is the program's.
inline usize large_bytes(const Span* span) { return span->run_bytes.get(); }
inline void set_large_bytes(Span* span, usize bytes) { span->run_bytes.set(bytes); }
inline usize large_offset(const Span* span) { return span->first_block % kSliceBytes; }
inline usize large_usable(const Span* span) { return large_bytes(span) - large_offset(span); }

enum class ChunkUse : u8 { none = 0, spans = 1, large = 2 };  // of the first chunk only, for a large block

struct alignas(kCacheLine) Chunk {
  Atomic<u64> free;   // bit i: slice i is free. Claiming is one CAS, releasing one fetch_or
  Atomic<u64> dirty;  // bit i: slice i is free and perhaps resident (has old data); also of a chunk that is free whole
  Atomic<ChunkUse> use;
  Owned<u8> huge;           // huge pages are allowed here
  Owned<u8> moved;          // its mapping was moved here and does not merge with its neighbours
  Owned<u32> large_chunks;  // large: chunks of the block, this one first
  Atomic<u32> large_tail;   // large: pages (kCarvePage) behind the block that may be resident and are charged; and the
                            // bits of pool/tails.hpp
};
static_assert(sizeof(Chunk) == kCacheLine);

inline constexpr u32 kOrders = 6;  // runs of 1, 2, 4 ... 32 slices
inline constexpr u32 kChunksPerGroup = 64;

// For 64 chunks: which have room (a hint, kept by pool/room_map), which are taken, which are writable, which may have
// dirty slices, which begin a large block with a tail.
struct alignas(kCacheLine) Group {
  Atomic<u64> room[kOrders];  // bit i: chunk i may have an aligned free run of 1 << order slices
  Owned<u64> taken;           // under the arena's lock
  Owned<u64> committed;       // under the arena's lock
  Atomic<u64> dirty;          // bit i: chunk i may have dirty slices; see note_dirty
  Atomic<u64> tails;          // bit i: chunk i may have a large_tail; see pool/tails.hpp
};
static_assert(sizeof(Group) == 2 * kCacheLine);

}  // namespace coffer
