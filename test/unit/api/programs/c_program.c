// SPDX-License-Identifier: MIT
/* A C program with threads: the allocation functions are Coffer's, and no C++ runtime comes with them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* What a C++ runtime would define. */
extern void __gxx_personality_v0(void) __attribute__((weak));
extern const char* coffer_version(void) __attribute__((weak));
extern void* coffer_malloc(size_t) __attribute__((weak));
/* Not in musl's headers, nor in its library: where Coffer comes by LD_PRELOAD the linker does not see them. */
#ifdef PRELOADED
#define FOUND_LATE __attribute__((weak))
#else
#define FOUND_LATE
#endif
extern void* __libc_malloc(size_t) FOUND_LATE;
extern void* pvalloc(size_t) FOUND_LATE;
extern int malloc_trim(size_t) FOUND_LATE;

static void* work(void* argument) {
  uintptr_t seed = (uintptr_t)argument;
  void* blocks[64] = {0};
  for (int i = 0; i < 20000; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const size_t place = (seed >> 33) % 64;
    const size_t size = (seed >> 40) % 3000;
    free(blocks[place]);
    blocks[place] = i % 3 == 0 ? calloc(1, size) : malloc(size);
    CHECK(blocks[place] != NULL);
    memset(blocks[place], (int)i, size);
  }
  for (int i = 0; i < 64; ++i) free(blocks[i]);
  return NULL;
}

int main(void) {
  CHECK(&__gxx_personality_v0 == NULL);
  CHECK(&coffer_version != NULL && strcmp(coffer_version(), "0.") > 0);

  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, work, (void*)(i + 1)) == 0);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      free(opaque(malloc(100)));
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(threads[i], NULL) == 0);

  /* glibc's own name for malloc is ours too, so free takes its blocks. */
  free(opaque(__libc_malloc(10)));
  errno = 0;
  CHECK(opaque(malloc((size_t)(uintptr_t)opaque((void*)PTRDIFF_MAX) + 1)) == NULL && errno == ENOMEM);
  void* aligned = NULL;
  CHECK(posix_memalign(&aligned, 4096, 10) == 0 && (uintptr_t)aligned % 4096 == 0);
  CHECK(malloc_usable_size(aligned) >= 10);
  free(aligned);
  char* text = strdup("allocated inside libc");
  CHECK(text != NULL && malloc_usable_size(text) >= strlen(text));
  free(text);
  free(memalign(64, 1));
  free(valloc(1));
  free(pvalloc(0));
  CHECK(malloc_trim(0) >= 0);
  printf("good\n");
  return 0;
}
