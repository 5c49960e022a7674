// SPDX-License-Identifier: MIT
// Mixed spans: spans whose blocks have any size that is a multiple of 16 bytes, at any 16-byte position. What is used
// is known from bitmaps outside the blocks (mixed/unit_map.hpp), so the holes between blocks serve every class.
//
// Where they come from: convert() takes a span of one class of which little is live (heap/mixing.cpp says when), with
// its live blocks where they are; make() takes a new slice, for the first blocks of a small process.
//
// A mixed span has no owner: every free of one of its blocks takes the slow path, and everything is done under the lock
// of the span's shard. Its record, beside the fields that keep their meaning (first_block, slices, absent):
//
//   use         SliceUse::mixed in the first record; later slices as in any span
//   remote      SpanState::mixed, first and count 0: a push that comes late from a thread that saw the span before its
//               conversion meets it in its CAS loop, pushes nothing, and frees the blocks here (PushDuty::mixed)
//   live_units  units in use
//   absent      bit i: page i is not resident, as far as is known
//   quiet       whether something was carved or freed since the last tick ended (MixedAge)
//   limit, multiplier, capacity, block_bytes   of the class it was, untouched: that thread may still read them
//
// Each of its pages in which a hole starts is on a list of the shard, by the largest of these (PageRecord in
// mixed/hole_lists.hpp).
#pragma once

#include "arena/arena.hpp"
#include "mixed/unit_map.hpp"
#include "span/span.hpp"

namespace coffer {

inline constexpr u32 kMostTaken = 128;  // blocks that one call of take() carves

enum class Lines : bool { shared, whole };

// What MixedPool::take did so far, for tests: its cost is bounded by counts, on every machine.
struct TakeSteps {
  u64 takes = 0;  // shards that were locked
  u64 looks = 0;  // pages of which the record was looked at
  u64 scans = 0;  // pages of which the table was read
};

class MixedPool {
 public:
  // Makes the span a mixed one. The caller holds it alone (its claimant, or an owner in whose state nobody claims), on
  // no list, with none of its blocks on a heap's list; remote frees may come in meanwhile. false: no memory for the
  // table, a free list of the span is broken, or mixed spans hold enough (limit); then it is as it was.
  bool convert(Span* span);
  // A block of a new mixed span of 1, 2, 4 or 8 slices. nullptr: no memory, or mixed spans hold enough (limit).
  Block* make(u32 bytes, u32 slices);

  // Up to `most` blocks of `bytes` (a multiple of 16) from holes of one span, linked; where one is asked for, it is
  // not: nothing but its mark is written, if its page may be resident. nullptr: no hole fits. Multiples of 32 are
  // aligned to 32, of 64 (align:all: all from there on) to a cache line, as in spans of their class. Whole lines: no
  // other block is on the cache lines that these are on, so that they may go to another thread than their neighbours
  // (Hoard, section 2.3). home: the shard to look in first; threads that give different ones do not wait for each
  // other.
  Block* take(u32 bytes, u32 most, Lines lines = Lines::shared, u32 home = 0);
  // Frees a block and returns its bytes. 0: no block starts there, or one of less than `least` or more than `most`
  // bytes.
  usize release(Span* span, void* block, usize least = 0, usize most = ~usize{0});
  // Usable bytes of a block; 0: no block starts there.
  usize size_of(Span* span, const void* block);
  // The same; 0 also if the shard is locked. For a signal handler, which may have interrupted who locked it.
  usize try_size_of(Span* span, const void* block);
  // Usable bytes of the block that the address lies in; 0: it lies in none.
  usize size_around(Span* span, uptr address);
  // Makes a block larger or smaller where it is. false: what follows it is in use (nothing changed).
  bool resize(Span* span, void* block, usize bytes);

  // Gives back the whole pages of the span in which nothing is live; the caller says for how many bytes at most.
  // Returns the bytes given back. No lock is held across the system call.
  usize purge(Span* span, usize bytes);
  // The same, once, if nothing was carved or freed in the span since the last call of this. *waits grows by the free
  // bytes of a span that has to be looked at again.
  usize purge_if_idle(Span* span, usize* waits);

  // What all mixed spans hold cannot pass this: twice the most that was seen live in them, and kMixedFloor; 0 if there
  // is none. It is computed from what is live when one is added, and rises until there is none any more.
  usize limit() const { return limit_.get(); }
  bool may_grow(usize bytes) const;  // a guess: whether the limit allows one more

  // In a fork child: lets go of locks that vanished threads had. True if there were any; then what these protect may be
  // half changed, and is_torn() holds until it is made anew: drop_lists(), restore(span) for every span there is, mixed
  // or not, and mark_whole(). Meanwhile all other threads wait.
  bool forget_others();
  bool is_torn() const;
  void drop_lists();
  void restore(Span* span);
  void mark_whole();
  // As well there: finishes what vanished threads had begun.
  void finish_purges();
  void count_anew() const;  // counters().mixed

  // For walks, while no other thread is inside: violations found in a mixed span.
  enum class Fault : u8 { none, state, table, count, hole, list };
  Fault check(Span* span);
  usize counted_live() const;  // over all shards
  TakeSteps steps() const;     // over all shards; exact while no other thread is inside
  static usize live_bytes(const Span* span) { return usize{span->live_units.get()} * kQuantum; }

 private:
  static constexpr u32 kShards = 8;
  struct alignas(kCacheLine) Shard {
    SpinLock lock;
    FilledLists filled;
    Owned<PageNumber> heads[kHoleLists];
    Owned<usize> held;  // bytes of its spans
    Owned<usize> live;  // and of what is in use in them
    // Pages that are being given back now. Meanwhile they are taken, as a block is; one run a shard at a time.
    Owned<SpanNumber> purged;
    Owned<u32> purged_from, purged_pages;
    bool torn = false;               // in a fork child
    Owned<u64> takes, looks, scans;  // see TakeSteps
  };

  Shard& shard_of(const Span* span) { return shards_[(span_number(span) / kMaxSpanSlices) % kShards]; }
  static bool is_block(const Shard& shard, const Span* span, const UnitMap& map, uptr address);
  static usize size_in(const Shard& shard, Span* span, uptr address);
  bool grow(usize bytes);
  void shrink(usize bytes);
  void set_live(Shard& shard, Span* span, u32 units);
  bool begin_purge(Shard& shard, Span* span, usize bytes);
  bool end_purge(Shard& shard, bool purged);
  bool add(Shard& shard, Span* span);
  void list_holes(Shard& shard, Span* span);
  void retire(Shard& shard, Span* span);
  void list_hole(Shard& shard, const UnitMap& map, const Span* span, u32 page, Hole hole);
  void unlist(Shard& shard, const PageRecord& record);
  void look_at(Shard& shard, const UnitMap& map, const Span* span, u32 unit);
  void hole_grew(Shard& shard, const UnitMap& map, const Span* span, Hole hole);
  void hole_grew(Shard& shard, const UnitMap& map, const Span* span, const UnitMap::Grown& grown);
  void hole_shrank(Shard& shard, const UnitMap& map, const Span* span, Hole before, u32 to);
  template <class Fits>
  static PageNumber find(Shard& shard, u32 least, u32 sure, Fits&& fits);
  void end(Span* span);

  Shard shards_[kShards];
  SpinLock growth_;         // counters().mixed, and these two; never taken together with a shard's
  Owned<usize> most_live_;  // seen since there was no mixed span
  Owned<usize> limit_;
};

extern MixedPool g_mixed_pool __attribute__((visibility("hidden")));

// Where in a wide hole, from unit `from` on, a block of so many units starts. Blocks of whole pairs of lines go where
// their like reach all cache indices: page p of the memory has them at lines q, q + g, q + 2g ... modulo its lines, g
// the greatest step that all of them have in common, q = p + p/2 (with q = p those of six or fourteen lines would meet
// again) and the colour of the process. One after the other they then lie about as in a punctuated span (CIF, section
// 3), and what is left over serves others. All others start at `from`.
u32 indexed_start(const Span* span, u32 from, u32 units) __attribute__((visibility("hidden")));

inline bool is_mixed(const Span* span) { return span->use.load(relaxed) == SliceUse::mixed; }  // relaxed: as is_large

}  // namespace coffer
