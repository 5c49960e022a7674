// SPDX-License-Identifier: MIT
// Memory from the system for superblocks: pieces of one size, each aligned to it. Papers 1 and 3 take each by a mapping
// of its own. Here many are mapped at once and handed out one by one, since the kernel allows a process 65,530
// mappings; a piece that was not handed out was not touched and costs no memory.
#pragma once

#include "base/base.hpp"
#include "os/spin_lock.hpp"

namespace coffer::papers {

class Pieces {
 public:
  // bytes: of a piece, a power of two of at least a page. Before the first take().
  void set_size(usize bytes) { bytes_ = bytes; }
  // A piece, zero. nullptr: the system has no memory.
  void* take();
  // Back to the system.
  void give_back(void* piece);

  void lock_for_fork() {
    growth_.lock_for_fork();
    lock_.lock_for_fork();
  }
  void unlock_after_fork() {
    lock_.unlock_after_fork();
    growth_.unlock_after_fork();
  }

 private:
  void* cut();
  bool grow();
  usize bytes_ = 0;
  SpinLock growth_;  // who maps a batch
  SpinLock lock_;    // innermost; no system call is made under it
  uptr rest_ = 0;    // pieces mapped and not handed out: from here
  uptr end_ = 0;     // to here
};

}  // namespace coffer::papers
