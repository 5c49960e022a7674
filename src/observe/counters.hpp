// Counters of the whole process. Relaxed atomics: each is a figure for people, or a limit that may be a little late.
#pragma once

#include "base/atomic.hpp"
#include "cpu/cpu.hpp"

namespace coffer {

struct Counters {
  Atomic<usize> reserved;                  // bytes of address space
  Atomic<usize> metadata;                  // bytes of metadata made writable
  Atomic<usize> committed;                 // bytes of chunks made writable
  Atomic<usize> chunks;                    // chunks ever made writable
  alignas(kCacheLine) Atomic<usize> held;  // bytes of slots and chunks in spans and large blocks
  Atomic<usize> dirty;                     // bytes of free slots and chunks that may be resident
  Atomic<usize> large;                     // bytes of live large blocks
  Atomic<usize> large_blocks;              // their number
  Atomic<usize> mixed;                     // bytes of mixed spans
  Atomic<usize> peak;                      // highest held + dirty seen when a chunk was taken
};

inline Counters& counters() {
  static constinit Counters instance;
  return instance;
}

// Called whenever spans or large blocks were made.
inline void note_peak() {
  Counters& c = counters();
  const usize now = c.held.load(relaxed) + c.dirty.load(relaxed);  // relaxed, all: a statistic
  usize peak = c.peak.load(relaxed);
  while (now > peak && !c.peak.compare_exchange(peak, now, relaxed, relaxed)) {
  }
}

}  // namespace coffer
