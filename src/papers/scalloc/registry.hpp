// SPDX-License-Identifier: MIT
// Which LAB belongs to which thread.
//
// LABs are numbered records that are never unmapped, so that any owner word can be looked up. A new thread gets one
// that an ended thread left, with its next identity; when a record has used up its 65,535 identities it is left alone
// for ever, so that no owner word ever comes back (the paper's 16 bits wrap). With more threads than LABs, or memory
// for them, and after a thread's end while its destructors still run, the common LAB serves under its lock. (scalloc's
// own code ends the process.)
#pragma once

#include "papers/scalloc/front_end.hpp"

namespace coffer::scalloc {

class Registry {
 public:
  // false: no memory.
  bool start(FrontEnd* front_end, const Parameters& parameters, u32 cores);

  // A LAB for a thread: of its own (TLAB), or its core's (CLAB). nullptr: there is none, use common().
  Lab* attach(u32 thread);
  // The thread has ended. The last thread of a LAB terminates it.
  void detach(Lab* lab);

  Lab* common() { return &common_; }

  u32 attached() const { return attached_.load(relaxed); }  // relaxed, both: figures
  u32 made() const { return made_.load(relaxed); }
  Lab* lab(u32 index) { return &labs_[index]; }
  usize bytes() const { return committed_; }

  // fork: takes every lock of LABs, from outside in. In the child, `own` (may be nullptr) is the only thread's LAB.
  void fork_prepare();
  void fork_parent();
  void fork_child(Lab* own);
  // Spans that threads may have had in hand which this process does not have: each at most one.
  u32 most_lost_spans() const { return lost_; }

 private:
  Lab* make();
  void open(Lab* lab);
  void leave(Lab* lab);
  template <class Fn>
  void for_each_lock(Fn&& fn);

  FrontEnd* front_end_ = nullptr;
  LabPolicy policy_ = LabPolicy::thread;
  u32 cores_ = 1;
  u32 capacity_ = 0;
  Lab* labs_ = nullptr;
  usize committed_ = 0;
  Lab* unused_ = nullptr;
  Atomic<u32> made_;
  Atomic<u32> attached_;  // threads with a LAB
  u32 lost_ = 0;
  SpinLock lock_;
  Lab common_;
};

}  // namespace coffer::scalloc
