// SPDX-License-Identifier: MIT
// The steps of a world. Each access to a shared cell is one: it is counted, goes into the hash of the run, and may be
// where another thread goes on. What is decided there is the scheduler's (scheduler.hpp).
#pragma once

#include "base/base.hpp"

namespace coffer::trial {

inline constexpr u32 kPlaces = 1024;  // in the sources, by their lines; that two may share one does no harm

struct Pulse {
  bool on = false;  // whether threads are scheduled: not before the first runs, nor while all of them rest
  u64 steps = 0;
  u64 hash = 0;
  u64 left = 0;               // steps until a turn
  u32 left_at[kPlaces] = {};  // ... and times that a place is passed until one: seldom ones get as many as busy ones
};
extern Pulse g_pulse;

// Another thread may go on.
void turn(u32 place);

COFFER_INLINE void step(u32 line, u32 kind) {
  Pulse& pulse = g_pulse;
  if (!pulse.on) return;
  ++pulse.steps;
  const u32 place = line % kPlaces;
  pulse.hash = (pulse.hash ^ (line << 3 | kind)) * 0x9e3779b97f4a7c15u;
  const bool due = --pulse.left_at[place] == 0;
  if (--pulse.left == 0 || due) turn(place);
}

}  // namespace coffer::trial
