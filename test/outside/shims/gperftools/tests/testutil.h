/* SPDX-License-Identifier: MIT */
/* The helpers of gperftools' tests, by the same names. */
#pragma once
#include <sys/resource.h>

#include <cstddef>
#include <thread>

inline void RunThread(void (*body)()) { std::thread(body).join(); }

/* So that what asks for too much fails soon. */
inline void SetTestResourceLimit() {
  const rlimit limit = {rlim_t{8} << 30, rlim_t{8} << 30};
  setrlimit(RLIMIT_AS, &limit);
}

/* The compiler has to take it for a value that it knows nothing of. */
template <typename Value>
Value noopt(Value value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}
