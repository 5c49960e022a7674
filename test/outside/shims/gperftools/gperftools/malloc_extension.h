/* SPDX-License-Identifier: MIT */
/* gperftools' MallocExtension as one of its tests uses it: statistics to look at, which nothing depends on. */
#pragma once
#include <cstddef>
#include <cstdio>

class MallocExtension {
 public:
  static MallocExtension* instance() {
    static MallocExtension only;
    return &only;
  }
  void GetStats(char* text, int size) { std::snprintf(text, static_cast<std::size_t>(size), "no statistics"); }
};
