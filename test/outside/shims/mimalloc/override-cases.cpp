/* SPDX-License-Identifier: MIT */
/* mimalloc's main-override.cpp runs the one of its functions that was looked at last, which leaks 6 GB: here each is
 * run by name. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define main outside_main_of_mimalloc
#include "main-override.cpp"
#undef main

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*body)();
  } cases[] = {
      {"various_tests", various_tests},
      {"test_mixed1", test_mixed1},
      {"test_join", test_join},
      {"test_std_string", test_std_string},
      {"test_thread_local", test_thread_local},
      {"theap_thread_free_huge", theap_thread_free_huge},
      {"theap_thread_free_large", theap_thread_free_large},
      {"theap_late_free", theap_late_free},
      {"padding_shrink", padding_shrink},
      {"tsan_numa_test", tsan_numa_test},
      {"test_stl_allocators", test_stl_allocators},
      {"test_mt_shutdown", test_mt_shutdown},
  };
  const char* const wanted = std::getenv("OUTSIDE_CASE");
  for (const auto& one : cases) {
    if (wanted == nullptr || wanted[0] == '\0') {
      std::printf("case: %s\n", one.name);
    } else if (std::strcmp(one.name, wanted) == 0) {
      return one.body(), 0;
    }
  }
  return wanted != nullptr && wanted[0] != '\0';
}
