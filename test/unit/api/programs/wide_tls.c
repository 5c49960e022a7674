// SPDX-License-Identifier: MIT
/* A program with TLS_BYTES of thread-local variables, so that Coffer's own are as far from the thread pointer,
 * breathes: the reclaimer, whose block of thread-local storage is small, must be either whole or absent. */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

#define BLOCKS 100
#define BLOCK_BYTES 400000

static _Thread_local volatile char wide[TLS_BYTES] = {1}; /* initialised, as Coffer's pointer to the heap is */
static _Thread_local volatile char empty[TLS_BYTES];

static int count_threads(void) {
  int count = 0;
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  while (readdir(tasks) != NULL) ++count;
  closedir(tasks);
  return count - 2; /* . and .. */
}

static void breathe(void) {
  static _Thread_local char* blocks[BLOCKS];
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < BLOCKS; ++i) {
      blocks[i] = malloc(BLOCK_BYTES);
      CHECK(blocks[i] != NULL);
      memset(blocks[i], round, BLOCK_BYTES);
    }
    for (int i = 0; i < BLOCKS; ++i) {
      CHECK(blocks[i][0] == round && blocks[i][BLOCK_BYTES - 1] == round);
      free(blocks[i]);
    }
  }
}

static void* breathe_in_thread(void* unused) {
  wide[TLS_BYTES - 1] = 2;
  empty[TLS_BYTES - 1] = 2;
  breathe();
  return unused;
}

int main(void) {
  CHECK(wide[0] == 1 && empty[0] == 0);
  breathe();
  /* Far too far for the reclaimer: there must be none. Where it is near there usually is one. */
  if (TLS_BYTES >= 60000) CHECK(count_threads() == 1);
  const struct timespec wakings = {0, 600 * 1000 * 1000};
  nanosleep(&wakings, NULL);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, breathe_in_thread, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  breathe();
  for (int i = 0; i < BLOCKS; ++i) free(malloc(i));
  CHECK(wide[0] == 1 && empty[0] == 0);
  printf("good\n");
  return 0;
}
