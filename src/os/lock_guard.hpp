// SPDX-License-Identifier: MIT
// Has a lock as long as it lives. Apart from spin_lock.hpp, in whose place tests put locks of their own.
#pragma once

namespace coffer {

template <class Lock>
class Guard {
 public:
  explicit Guard(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~Guard() { lock_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace coffer
