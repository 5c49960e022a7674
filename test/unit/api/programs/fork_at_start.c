// SPDX-License-Identifier: MIT
/* A fork while another thread is inside the very first allocation of the process. The child has no such thread, and has
 * to start by itself. This program's own pthread_key_create, which Coffer calls while it starts, holds that thread. */
#include <coffer/coffer.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static sem_t inside, go_on;
static pthread_t first;
static int held;

int pthread_key_create(pthread_key_t* key, void (*destructor)(void*)) {
  (void)key, (void)destructor;
  if (!held && pthread_equal(pthread_self(), first)) {
    held = 1;
    sem_post(&inside);
    sem_wait(&go_on);
  }
  return 11; /* EAGAIN: Coffer works without a key */
}

static void* allocate(void* argument) {
  (void)argument;
  for (size_t size = 1; size < 100000; size = size * 2 + 1) {
    char* block = opaque(coffer_malloc(size));
    CHECK(block != NULL);
    block[size - 1] = 1;
    coffer_free(block);
  }
  return NULL;
}

static void* allocate_first(void* argument) {
  first = pthread_self();
  return allocate(argument);
}

int main(void) {
  alarm(30);
  pthread_t starter;
  CHECK(sem_init(&inside, 0, 0) == 0 && sem_init(&go_on, 0, 0) == 0);
  CHECK(pthread_create(&starter, NULL, allocate_first, NULL) == 0);
  sem_wait(&inside);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(20);
    pthread_t thread;
    allocate(NULL);
    CHECK(pthread_create(&thread, NULL, allocate, NULL) == 0 && pthread_join(thread, NULL) == 0);
    const pid_t grandchild = fork();
    CHECK(grandchild >= 0);
    if (grandchild == 0) {
      allocate(NULL);
      _exit(coffer_check() == 0 ? 0 : 2);
    }
    int status = 0;
    CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    _exit(coffer_check() == 0 ? 0 : 2);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  sem_post(&go_on);
  CHECK(pthread_join(starter, NULL) == 0);
  allocate(NULL);
  CHECK(coffer_check() == 0);
  puts("good");
  return 0;
}
