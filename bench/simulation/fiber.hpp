// SPDX-License-Identifier: MIT
// A simulated thread's own stack and thread-local variables. All of them run on one thread of the kernel, one at a
// time; each has the thread pointer of a real thread that waits for ever, so that code which is compiled for threads,
// and the C library, find variables of their own and notice nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "costs.hpp"

namespace simulation {

class Fiber {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes it ready to call `body` on its stack, its thread-local variables as a new thread has them. `body` never
  // returns: it switches away for the last time.
  void prepare(void (*body)());
  // Continues `to`; returns when somebody continues `from`.
  static void change(Fiber& from, Fiber& to);
  // What the caller runs on now.
  static std::unique_ptr<Fiber> own();

 private:
  struct Own {};
  explicit Fiber(Own);

  void* stack_pointer_ = nullptr;
  uptr thread_pointer_ = 0;
  char* stack_ = nullptr;
};

}  // namespace simulation
