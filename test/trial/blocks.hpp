// SPDX-License-Identifier: MIT
// The model of a world: which blocks its program holds, where they lie, and what is in them.
#pragma once

#include <vector>

#include "base/base.hpp"
#include "support/live_ranges.hpp"

namespace coffer::trial {

struct Held {
  unsigned char* at = nullptr;
  usize size = 0;
  usize usable = 0;
  usize alignment = 0;  // 0: from malloc and the like
  u64 seed = 0;
  usize counted = 0;       // bytes that the statistics count for it
  bool by_handle = false;  // of the heap that has one (handle.hpp)
  bool busy = false;       // a call is at work on it
  u32 by = 0;              // the thread whose call that is
};

class Blocks {
 public:
  explicit Blocks(u32 slots) : held_(slots) {}
  Held& operator[](u32 slot) { return held_[slot]; }
  std::vector<Held>& all() { return held_; }

  // What a call gave: it overlaps no other one, is aligned and long enough. It is filled.
  void enter(Held& held, void* at, usize size, usize usable, usize alignment);
  // From now on others may get its memory.
  void leave(const Held& held);
  // Its first bytes, as many as it had and still has, are what was written there.
  static void verify(const Held& held, usize kept, const char* when);
  usize live() const { return live_; }

 private:
  std::vector<Held> held_;
  test::LiveRanges ranges_;
  usize live_ = 0;
  u64 next_seed_ = 1;
};

}  // namespace coffer::trial
