// SPDX-License-Identifier: MIT
// Counters of the whole process. Relaxed atomics: each is a figure for people, or a limit that may be a little late.
#pragma once

#include "base/atomic.hpp"
#include "cpu/cpu.hpp"

namespace coffer {

// Memory that turns from free and resident to held, and back, changes both figures by as much; where large blocks come
// and go that happens a million times a second in every thread. So what turned is counted apart, by the shard of its
// chunk (pool/slice_pool.hpp), in one step for both: threads that work in different chunks do not wait for each other's
// lines.
inline constexpr u32 kTurnCells = 16;
struct alignas(kCacheLine) TurnCell {
  Atomic<usize> turned;  // bytes that became held less those that became free and resident
};
inline constinit TurnCell g_turns[kTurnCells];
inline constinit Owned<u32> g_turn_cells{1};  // how many are in use; a power of two, set once, before any other use
inline TurnCell& turn_cell(u32 chunk) { return g_turns[chunk & (g_turn_cells.get() - 1)]; }

// What was added up from cells that changed between the looks.
constexpr usize clamp_negative(usize sum) { return static_cast<i64>(sum) < 0 ? 0 : sum; }

// A figure: a cell of its own, and its part of what turned. The sum is exact while no other thread changes a cell. Else
// the cells are read at different times, and the sum may miss what turned in between. So it can even come out negative:
// when a slice became held and free again between the two reads. Then it counts as 0.
template <class Part>
class TurnedFigure {
 public:
  // The order and its partner are the caller's to say.
  usize load(std::memory_order order) const {
    const usize own = own_.load(order);
    return clamp_negative(own + turned(order));
  }
  // What it would be without that rule: for who knows that nobody is at work.
  usize exact() const { return own() + turned(relaxed); }                                           // relaxed: as above
  void store(usize value, std::memory_order order) { own_.store(value - turned(relaxed), order); }  // relaxed: a figure
  // Both return what was before. The order is the caller's to say; relaxed: a figure.
  usize fetch_add(usize bytes, std::memory_order order) {
    const usize own = own_.fetch_add(bytes, order);
    return clamp_negative(own + turned(relaxed));
  }
  usize fetch_sub(usize bytes, std::memory_order order) { return fetch_add(usize{0} - bytes, order); }
  usize own() const { return own_.load(relaxed); }  // relaxed: a figure

 private:
  static usize turned(std::memory_order order) {
    usize sum = 0;
    for (u32 i = 0; i < g_turn_cells.get(); ++i) sum += Part::of(g_turns[i], order);
    return sum;
  }

  Atomic<usize> own_;
};
struct HeldPart {
  // The order is the caller's.
  static usize of(const TurnCell& cell, std::memory_order order) { return cell.turned.load(order); }
};
struct DirtyPart {
  // The order is the caller's.
  static usize of(const TurnCell& cell, std::memory_order order) { return usize{0} - cell.turned.load(order); }
};

struct Counters {
  Atomic<usize> reserved;   // bytes of address space
  Atomic<usize> metadata;   // bytes of metadata made writable
  Atomic<usize> committed;  // bytes of chunks made writable
  Atomic<usize> chunks;     // chunks ever made writable
  Atomic<u32> heaps;        // heaps among which what may be kept is divided
  // Each on a line of its own: where a process grows, every span that is made writes the first and the last, while all
  // four are looked at before it is.
  alignas(kCacheLine) TurnedFigure<HeldPart> held;    // bytes of slices and chunks in spans and large blocks
  alignas(kCacheLine) TurnedFigure<DirtyPart> dirty;  // bytes of free slices and chunks that may be resident
  alignas(kCacheLine) Atomic<usize> mixed;            // bytes of mixed spans
  Atomic<usize> holes;                                // and what of them was free when one was added or ended last
  alignas(kCacheLine) Atomic<usize> peak;             // highest held + dirty seen when a chunk was taken
};

inline Counters& counters() {
  static constinit Counters instance;
  return instance;
}

// Held and dirty together; what turned is in both, and cancels. Between the looks what came to be held may have turned
// and been purged.
inline usize held_and_dirty() { return clamp_negative(counters().held.own() + counters().dirty.own()); }

// Called whenever spans or large blocks were made.
inline void note_peak() {
  Counters& c = counters();
  const usize now = held_and_dirty();
  usize peak = c.peak.load(relaxed);  // relaxed, all: a statistic
  while (now > peak && !c.peak.compare_exchange(peak, now, relaxed, relaxed)) {
  }
}

}  // namespace coffer
