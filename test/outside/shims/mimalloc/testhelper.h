/* SPDX-License-Identifier: MIT */
/* In place of mimalloc's: runs the one case that OUTSIDE_CASE names; where it names none, lists all that there are. */
#pragma once
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int outside_ran, outside_failed;

static bool outside_is(const char* name) {
  const char* const wanted = getenv("OUTSIDE_CASE");
  if (wanted == NULL || wanted[0] == '\0') {
    printf("case: %s\n", name);
    return false;
  }
  return strcmp(wanted, name) == 0;
}

static bool outside_result(bool good, const char* name, long line) {
  outside_ran++;
  if (!good) {
    outside_failed++;
    fprintf(stderr, "failed: %s, line %ld\n", name, line);
  }
  return true;
}

#define CHECK_BODY(name) \
  errno = 0;             \
  for (bool done = !outside_is(name), result = true; !done; done = outside_result(result, name, __LINE__))
#define CHECK(name, condition) \
  CHECK_BODY(name) { result = (condition); }

static int print_test_summary(void) {
  const char* const wanted = getenv("OUTSIDE_CASE");
  if (wanted == NULL || wanted[0] == '\0') return 0;
  if (outside_ran == 0) fprintf(stderr, "failed: no case %s\n", wanted);
  return outside_failed != 0 || outside_ran == 0;
}

typedef bool (*mi_thread_fun_t)(void);
static void* outside_thread(void* function) { return ((mi_thread_fun_t)function)() ? function : NULL; }
static bool mi_run_on_thread(mi_thread_fun_t function) {
  pthread_t thread;
  void* result = NULL;
  if (pthread_create(&thread, NULL, outside_thread, (void*)function) != 0) return false;
  return pthread_join(thread, &result) == 0 && result != NULL;
}
