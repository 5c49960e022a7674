/* SPDX-License-Identifier: MIT */
/* rpmalloc's main.c has its tests as static functions, and some of them ask for sizes of its own: here each is run by
 * name. */
#define main outside_main_of_rpmalloc
#include "main.c"
#undef main

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    int (*body)(void);
  } cases[] = {
      {"test_realloc", test_realloc},   {"test_superalign", test_superalign}, {"test_crossthread", test_crossthread},
      {"test_threaded", test_threaded}, {"test_threadspam", test_threadspam},
  };
  test_initialize();
  for (size_t at = 0; argc == 2 && at < sizeof(cases) / sizeof(cases[0]); ++at) {
    if (strcmp(cases[at].name, argv[1]) == 0) return cases[at].body() == 0 ? 0 : 1;
  }
  fprintf(stderr, "no such case\n");
  return 2;
}
