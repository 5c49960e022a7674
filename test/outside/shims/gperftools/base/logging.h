/* SPDX-License-Identifier: MIT */
/* The checks of gperftools' tests, by the same names. */
#pragma once
#include <cstdio>
#include <cstdlib>

#define OUTSIDE_FAIL(...)                                                                          \
  (std::fprintf(stderr, "%s:%d: failed: ", __FILE__, __LINE__), std::fprintf(stderr, __VA_ARGS__), \
   std::fputc('\n', stderr), std::abort())
#define LOG(level, ...) OUTSIDE_FAIL(__VA_ARGS__)
#define CHECK(condition) ((condition) ? (void)0 : OUTSIDE_FAIL("%s", #condition))
#define CHECK_EQ(left, right) CHECK((left) == (right))
