// SPDX-License-Identifier: MIT
// CIF's heaps: one for each processor, and the global one. As in Hoard (paper 1, section 3), with CIF's own locking
// (paper 3, section 3: "heap-specific locks"):
//
//   allocate   lock the processor's heap; take a block of its fullest superblock of the class. If none has room: take
//              a superblock of the global heap (lock it, second), partly used or empty; if there is none, make one.
//   free       find the superblock by the block's header word; lock its owner; read the owner again, since it can have
//              changed; if so, start again. Give the block back. If the processor's heap is now too empty, pass an
//              f-empty superblock to the global heap (locked second).
//
// Order of locks: reclaim (where the system refused memory), a processor's heap, the global heap. The owner of a
// superblock changes only while the locks of the old and of the new owner are held. So a thread that holds the lock of
// the heap that `owner` names knows that it stays. Hoard also locks the superblock on the way to its owner. Here a
// thread touches nothing of a superblock before it has the owner's lock, so one lock for each free is enough:
// models/cif.pml.
//
// a, u and K are those of a class in a heap, counted in blocks. A superblock adds its capacity to a, which is less
// than its bytes over a block's, since header, colour and spacers hold no blocks. So a full superblock has u = a in
// every layout.
#pragma once

#include "cpu/cpu.hpp"
#include "os/spin_lock.hpp"
#include "papers/cif/superblock.hpp"
#include "papers/common/counted_lock.hpp"
#include "papers/common/pieces.hpp"
#include "papers/common/reclaim.hpp"

namespace coffer::cif {

// A heap's superblocks of one class. used <= held.
struct ClassHeap {
  usize held;      // a: blocks of all its superblocks
  usize used;      // u: of them, those in use
  usize k_blocks;  // blocks of K superblocks
  FullnessGroups groups;

  Superblock* fullest() const { return static_cast<Superblock*>(groups.fullest()); }
  Superblock* emptiest() const { return static_cast<Superblock*>(groups.emptiest()); }
};

struct alignas(kCacheLine) Heap {
  papers::CountedLock lock;
  Superblock* empty;  // global heap: superblocks without blocks in use, of any class, linked by `next`
  usize empty_count;
  u64 arrivals;  // superblocks that came from another heap

  ClassHeap& of(u32 size_class) { return reinterpret_cast<ClassHeap*>(this + 1)[size_class]; }
};
static_assert(sizeof(Heap) % alignof(ClassHeap) == 0);

// Whether a heap must pass a superblock on (paper 1, section 3.1): u < a - K * S and u < (1 - f) * a. Written without
// differences that could wrap.
constexpr bool is_too_empty(const ClassHeap& heap, u32 empty_log2) {
  return heap.used + heap.k_blocks < heap.held && ((heap.held - heap.used) << empty_log2) > heap.held;
}

class Heaps {
 public:
  static constexpr u32 kMostHeaps = 1024;

  // Once, before all else; again in a child that was forked meanwhile. false: no memory. `heaps` 0: one for each
  // processor.
  bool start(const Settings& settings, u32 heaps, u64 seed);

  // nullptr: no memory.
  void* allocate(u32 size_class);
  // `data` is a block's start, and its header word a superblock's.
  void deallocate(void* data);

  // map() until the system has memory, if every heap's empty superblocks that go back to it are enough.
  template <class Map>
  void* allocate_large(Map&& map) {
    return reclaim_.allocate(map, [this] { give_back_empty(); });
  }
  // Gives every heap's empty superblocks back to the system; true if there were any.
  bool trim() {
    return reclaim_.trim([this] { return give_back_empty(); });
  }

  // fork: in the order of locks.
  void lock_for_fork();
  void unlock_after_fork();
  // In the child: colours of its own.
  void seed_colours(u64 seed);

  // Calls visit(heap, number) for each heap under its lock; number 0 is the global heap.
  template <class Visit>
  void visit_heaps(Visit&& visit) {
    for (u32 i = 0, count = made(); i <= count; ++i) {
      heap(i).lock.lock();
      visit(heap(i), i);
      heap(i).lock.unlock();
    }
  }
  u32 made() const { return made_.load(acquire); }  // acquire: pairs with the release in make_heap
  const Settings& settings() const { return settings_; }

  // Verifies every invariant; number of violations. Other threads must be outside.
  usize check();

 private:
  static constexpr u32 kProcessors = 4096;

  Heap& heap(u32 number) const { return *reinterpret_cast<Heap*>(records_ + number * record_bytes_); }
  Heap& global() const { return heap(0); }
  bool reserve_records(u32 heaps);
  bool commit_record(u32 number);
  Heap* own_heap();
  Heap* make_heap(u32 processor);

  void* try_allocate(u32 size_class);
  Superblock* refill(Heap& own, u32 size_class);
  Superblock* take_from_global(u32 size_class);
  void put(Heap& to, Superblock* superblock);
  void take_out(Heap& from, Superblock* superblock);
  Superblock* pass_on(Superblock* superblock);
  Superblock* settle_in_global(Superblock* superblock);
  void give_back(Superblock* list);
  void gather_empty();
  bool give_back_empty();
  u32 next_colour();

  Settings settings_;
  papers::Pieces pieces_;
  char* records_ = nullptr;  // heap 0 is the global one
  usize record_bytes_ = 0;
  u32 most_heaps_ = 0;
  papers::Reclaim reclaim_;
  SpinLock growth_;   // new heaps; no other lock is held
  Atomic<u32> made_;  // heaps beside the global one
  Atomic<u64> colour_seed_;
  Atomic<u64> colours_given_;
  Atomic<Heap*> by_processor_[kProcessors];
};

}  // namespace coffer::cif
