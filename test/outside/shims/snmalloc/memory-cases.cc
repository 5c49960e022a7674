// SPDX-License-Identifier: MIT
// snmalloc's memory.cc has its tests as functions, and some of them ask where the block of an inner pointer begins: here
// each is run by name.
#define main outside_main_of_snmalloc
#include "memory.cc"
#undef main

int main() {
  static const struct {
    const char* name;
    void (*body)();
  } cases[] = {
      {"test_alloc_dealloc_64k", test_alloc_dealloc_64k},
      {"test_random_allocation", test_random_allocation},
      {"test_calloc", test_calloc},
      {"test_double_alloc", test_double_alloc},
      {"test_static_sized_allocs", [] { test_static_sized_allocs(); }},
      {"test_calloc_large_bug", test_calloc_large_bug},
      {"test_alloc_16M", test_alloc_16M},
      {"test_calloc_16M", test_calloc_16M},
      {"test_consolidaton_bug", test_consolidaton_bug},
  };
  const char* const wanted = getenv("OUTSIDE_CASE");
  const bool lists = wanted == nullptr || wanted[0] == '\0';
  for (const auto& one : cases) {
    if (lists) {
      std::cout << "case: " << one.name << std::endl;
    } else if (strcmp(one.name, wanted) == 0) {
      for (int pass = 0; pass < 3; ++pass) one.body();
      return 0;
    }
  }
  return !lists;
}
