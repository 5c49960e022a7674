// SPDX-License-Identifier: MIT
// Three threads allocate and free. It prints which library its malloc is of.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* work(void* unused) {
  void* kept[100] = {0};
  for (int i = 0; i < 20000; ++i) {
    free(kept[i % 100]);
    kept[i % 100] = malloc((size_t)(i % 5000) + 1);
    memset(kept[i % 100], 1, (size_t)(i % 5000) + 1);
  }
  for (int i = 0; i < 100; ++i) free(kept[i]);
  return unused;
}

int main(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) {
    if (pthread_create(&threads[i], NULL, work, NULL) != 0) return 1;
  }
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  Dl_info found;
  if (dladdr(dlsym(RTLD_DEFAULT, "malloc"), &found) == 0) return 1;
  printf("malloc of %s\n", strrchr(found.dli_fname, '/') + 1);
  return 0;
}
