// SPDX-License-Identifier: MIT
// What the papers' tables report: how much there is now, and the most there ever was (their A and U). One counter for
// the process each, so only what happens rarely is counted here: memory taken from the system and given back.
#pragma once

#include "base/atomic.hpp"
#include "cpu/cpu.hpp"

namespace coffer::papers {

class Gauge {
 public:
  void add(usize amount) {
    const usize now = now_.fetch_add(amount, relaxed) + amount;  // relaxed, here and below: figures for people
    usize peak = peak_.load(relaxed);
    while (now > peak && !peak_.compare_exchange(peak, now, relaxed, relaxed)) {
    }
  }
  void subtract(usize amount) { now_.fetch_sub(amount, relaxed); }  // relaxed: see add
  usize now() const { return now_.load(relaxed); }                  // relaxed: see add
  usize peak() const { return peak_.load(relaxed); }                // relaxed: see add

 private:
  Atomic<usize> now_;
  Atomic<usize> peak_;
};

// Of the whole process.
struct alignas(kCacheLine) Totals {
  Gauge held;           // bytes of pieces and mapped blocks: the papers' A ("allocated") is its peak
  Gauge mapped;         // bytes of mapped blocks alone
  Gauge mapped_blocks;  // their number
  Gauge metadata;       // bytes of records outside pieces
  Gauge reserved;       // bytes of address space reserved beyond what is held
};

inline Totals& totals() {
  static constinit Totals instance;
  return instance;
}

}  // namespace coffer::papers
