// SPDX-License-Identifier: MIT
/* A program whose indirect functions are resolved by code that allocates; with WITH_LIBRARY, a library's, too. */
#define NAME program
#include "ifunc.h"

#include <coffer/coffer.h>
#include <dlfcn.h>

#include "check.h"

#ifdef WITH_LIBRARY
int library_use(void);
#endif

int main(void) {
  CHECK(program_use() == 1);
#ifdef WITH_LIBRARY
  CHECK(library_use() == 1);
#endif
  size_t (*check)(void) = (size_t (*)(void))dlsym(RTLD_DEFAULT, "coffer_check");
  int (*figures)(struct coffer_stats*, size_t) =
      (int (*)(struct coffer_stats*, size_t))dlsym(RTLD_DEFAULT, "coffer_stats");
  /* In a program that has libcoffer.a inside they cannot be found. */
  if (check != NULL) CHECK(check() == 0);
  if (figures != NULL) {
    struct coffer_stats all;
    CHECK(figures(&all, sizeof all) == 0);
    CHECK(all.heaps == 1); /* none was lost when the variables got their values */
  }
  printf("good\n");
  return 0;
}
