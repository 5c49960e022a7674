// SPDX-License-Identifier: MIT
// A copy of a process that stands still, and what its threads had in their registers when it was made.
//
// All threads are stopped, one of them is made to call clone(), as fork() does, and all go on: the process stands still
// for as long as a fork takes. The copy never runs. It is the process's child, with no signal for its end, so that the
// process's own wait() knows nothing of it. It dies with this program; and at the end a thread of the process is
// stopped once more, for the wait4() that takes what is left of it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "attach/target.hpp"
#include "base/base.hpp"

namespace coffer::retain {

struct Thread {
  pid_t id;
  std::string name;
  u64 ip = 0, sp = 0, tls = 0;
  std::vector<u64> registers;
};

class Snapshot {
 public:
  Snapshot() = default;
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // still: the process itself is looked at, and stands still until release(); so is one that is stopped already. An
  // empty text: all is well; else what is wrong, for the user.
  std::string take(pid_t process, bool still);
  void release();

  // Where memory is read.
  pid_t memory() const { return copy_ != 0 ? copy_ : process_; }
  const std::vector<Thread>& threads() const { return threads_; }
  double stopped_seconds() const { return stopped_; }  // of the process; 0: it still stands
  bool is_copy() const { return copy_ != 0; }

 private:
  std::string stop_all();
  std::string make_copy();
  void let_go();
  void take_away_copy();

  pid_t process_ = 0, copy_ = 0;
  attach::Gadgets gadgets_;
  std::vector<std::unique_ptr<attach::Remote>> held_;
  std::vector<Thread> threads_;
  double began_ = 0, stopped_ = 0;
};

}  // namespace coffer::retain
