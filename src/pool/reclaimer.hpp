// SPDX-License-Identifier: MIT
// The reclaimer: a thread that lives while there is memory to give back. A program that uses and frees memory again
// and again keeps it resident. When the program stops doing so, perhaps no thread ever calls free again, so another
// thread must notice. A thread that leaves free memory above the floor asks for the reclaimer. The reclaimer wakes at
// the end of each tick, does its chores, and ends when they find nothing left to wait for. There is at most one, and
// none in a program that keeps little.
//
//   state     meaning
//   none      no reclaimer
//   running   there is one (or its starter is about to start it)
//   wanted    there is one, and a thread asked since it last woke: it goes round once more before it ends
//
//   none -> running      the thread that asks, which then starts the reclaimer
//   running -> wanted    a thread that asks
//   wanted -> running    the reclaimer, when it wakes
//   running -> none      the reclaimer, as its last act, so that no request is lost; or a starter that failed
#pragma once

#include "policy/returned.hpp"

namespace coffer {

// Something to do at each waking. Returns whether the reclaimer shall stay for it. It may use all of Coffer as any
// thread may; between two chores and during its sleep the reclaimer holds nothing.
// step: the same for a call where no reclaimer can be had: a bounded part of it, from where the last one stopped. It
// returns whether it is through. None: calls leave the chore.
struct Chore {
  bool (*whole)();
  bool (*step)() = nullptr;
};

// Says what there is to do, and what a thread must do first to be a thread of Coffer (nullptr: no thread can be one);
// once, at the start of the process. attend: what is done at each waking even when the chores have nothing to wait for
// (they then rest until somebody asks, so that who is watched keeps and returns memory as who is not); nullptr:
// nothing.
void set_chores(void (*enter)(), const Chore* chores, u32 count, bool (*attend)() = nullptr);

// Somebody left something to wait for. Any thread, at any time, holding no lock.
void want_reclaimer();

// Whether there is one, so that what waits will be looked at again within a step or two.
bool reclaimer_lives();

// Where none can be had (the option, the kernel, a filter): whether calls do its chores, for as many ticks after
// somebody asked as it stays itself. Those that take and give back slices or chunks do, and slow refills (purge_after).
bool calls_sweep();
// For a call that finds a tick over: a bounded step of the chores. true: they are through, and the tick may end.
bool sweep_step();

// In a fork child: the parent's reclaimer does not exist. Returns whether there was one.
bool forget_reclaimer();

// Keeps the reclaimer from its chores while this object lives, and waits for those that it is at: for walks that must
// be alone. May be nested.
class ReclaimerRests {
 public:
  ReclaimerRests();
  ~ReclaimerRests();
  ReclaimerRests(const ReclaimerRests&) = delete;
  ReclaimerRests& operator=(const ReclaimerRests&) = delete;

 private:
  const bool outer_;
};

// Between two steps of a long chore: who waits for the reclaimer to rest has its turn.
void let_walks_in();

// A chore, before idle heaps are emptied: notes what is held.
bool begin_sweep();
// A chore, the last: gives back free slices and chunks over what may stay in the next tick, of a quiet program all but
// least_free_limit, and ends the tick.
bool purge_what_waits();

}  // namespace coffer
