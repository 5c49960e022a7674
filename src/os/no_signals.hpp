// SPDX-License-Identifier: MIT
// No signal handler runs on the calling thread as long as it lives, unless the kernel refuses that.
#pragma once

#include "os/os.hpp"

namespace coffer {

class NoSignals {
 public:
  NoSignals() : blocked_(os::block_signals(&before_)) {}
  ~NoSignals() {
    if (blocked_) os::restore_signals(before_);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  u64 before_ = 0;
  bool blocked_;
};

}  // namespace coffer
