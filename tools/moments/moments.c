// SPDX-License-Identifier: MIT
// Preloaded behind Coffer by `coffer heap`: a thread that has the heap profile written at times that lie further apart
// the longer the program runs. A thread and no signal: a signal would end the program's sleep() and poll() early.
//
// COFFER_MOMENTS=PREFIX; files are PREFIX.PROCESS.moment.NUMBER.pb.gz. Each gets its name when it is whole, for the
// program may end at any time.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "coffer/coffer.h"

// Without Coffer in the process they are missing, and nothing happens.
#pragma weak coffer_profile_dump

enum {
  kPath = 4096,
  kFirstNs = 10 * 1000 * 1000,    // until the first moment: all that is known of a program that is killed early
  kMomentNs = 100 * 1000 * 1000,  // from moment to moment, at first
  kMomentsPerStep = 16,           // then twice as much
  kCostFactor = 50,               // so at most 2 % of a processor is spent on it
};

static char g_prefix[kPath - 64];

static unsigned long long now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec;
}

static void dump_moment(int number) {
  char part[kPath], path[kPath];
  snprintf(part, sizeof part, "%s.%d.part", g_prefix, (int)getpid());
  snprintf(path, sizeof path, "%s.%d.moment.%d.pb.gz", g_prefix, (int)getpid(), number);
  if (coffer_profile_dump(part) != 0 || rename(part, path) != 0) unlink(part);
}

static void sleep_ns(unsigned long long ns) {
  const struct timespec step = {(time_t)(ns / 1000000000ULL), (long)(ns % 1000000000ULL)};
  nanosleep(&step, NULL);
}

static void* run(void* unused) {
  (void)unused;
  unsigned long long between = kMomentNs;
  sleep_ns(kFirstNs);
  for (int number = 1;; ++number) {
    // What it costs is its own time, and not that of others who have the processor meanwhile.
    const unsigned long long spent = now_ns(CLOCK_THREAD_CPUTIME_ID);
    dump_moment(number);
    const unsigned long long took = (now_ns(CLOCK_THREAD_CPUTIME_ID) - spent) * kCostFactor;
    if (number % kMomentsPerStep == 0) between *= 2;
    sleep_ns(took > between ? took : between);
  }
  return NULL;
}

__attribute__((constructor)) static void begin(void) {
  const char* prefix = getenv("COFFER_MOMENTS");
  if (prefix == NULL || coffer_profile_dump == NULL) return;
  const int length = snprintf(g_prefix, sizeof g_prefix, "%s", prefix);
  if (length <= 0 || (size_t)length >= sizeof g_prefix) return;
  // The program's signals go to its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}
