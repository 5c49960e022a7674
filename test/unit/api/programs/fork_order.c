// SPDX-License-Identifier: MIT
/* Fork handlers that allocate, registered by a library's constructor: at first they make the process's first
 * allocation, then other threads allocate too. Coffer's own handlers must have been registered before, or the first
 * fork never returns. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

extern int handler_calls; /* of the library */
static atomic_int go;     /* none of the threads allocates before */
static atomic_int stop;
enum { kForks = 30 };

static void* work(void* argument) {
  (void)argument;
  while (!atomic_load(&go)) usleep(100);
  while (!atomic_load(&stop)) {
    void* blocks[100];
    for (int i = 0; i < 100; ++i) blocks[i] = opaque(malloc((size_t)i * 50));
    for (int i = 0; i < 100; ++i) free(blocks[i]);
  }
  return NULL;
}

static void fork_once(void) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    pthread_t thread;
    atomic_store(&go, 1);
    atomic_store(&stop, 1);
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0 && pthread_join(thread, NULL) == 0);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
  alarm(60);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
  fork_once();
  atomic_store(&go, 1);
  for (int i = 1; i < kForks; ++i) fork_once();
  atomic_store(&stop, 1);
  for (int i = 0; i < 3; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(handler_calls == 2 * kForks);
  printf("good\n");
  return 0;
}
