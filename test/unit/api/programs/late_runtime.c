// SPDX-License-Identifier: MIT
/* A C program that opens a C++ library late and out of the global scope, as plug-ins are. */
#include <dlfcn.h>

#include "check.h"

extern void __gxx_personality_v0(void) __attribute__((weak));

int main(int count, char** arguments) {
  CHECK(count == 2);
  CHECK(&__gxx_personality_v0 == NULL);
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  int (*run)(void) = (int (*)(void))dlsym(library, "run");
  CHECK(run != NULL && run() == 0);
  printf("good\n");
  return 0;
}
