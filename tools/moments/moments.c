// SPDX-License-Identifier: MIT
// Preloaded behind Coffer by `coffer heap`: a thread that looks at the live bytes, and has the heap profile written at
// their highest, and at times that lie further apart the longer the program runs. A thread and no signal: a signal
// would end the program's sleep() and poll() early.
//
// COFFER_MOMENTS=PREFIX; files are PREFIX.PROCESS.peak.pb.gz and PREFIX.PROCESS.moment.NUMBER.pb.gz. Each gets its name
// when it is whole, for the program may end at any time.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "coffer/coffer.h"

// Without Coffer in the process they are missing, and nothing happens.
#pragma weak coffer_stats
#pragma weak coffer_profile_dump

enum {
  kPath = 4096,
  kStepNs = 10 * 1000 * 1000,     // from look to look, at least
  kMomentNs = 100 * 1000 * 1000,  // from moment to moment, at first
  kMomentsPerStep = 16,           // then twice as much
  kCostFactor = 50,               // so at most 2 % of a processor is spent on looking
  kSlack = 64 * 1024,             // a new peak is higher by so much, and by 1/32
};

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static char g_prefix[kPath - 64];
static size_t g_peak;

static unsigned long long now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec;
}

static void dump_as(const char* name) {
  char part[kPath], path[kPath];
  snprintf(part, sizeof part, "%s.%d.part", g_prefix, (int)getpid());
  snprintf(path, sizeof path, "%s.%d.%s.pb.gz", g_prefix, (int)getpid(), name);
  if (coffer_profile_dump(part) != 0 || rename(part, path) != 0) unlink(part);
}

static void look(void) {
  struct coffer_stats figures;
  if (coffer_stats(&figures, sizeof figures) != 0) return;
  if (figures.live < g_peak + g_peak / 32 + kSlack) return;
  g_peak = figures.live;
  dump_as("peak");
}

static void* run(void* unused) {
  (void)unused;
  unsigned long long next_moment = now_ns(CLOCK_MONOTONIC) + kMomentNs, between = kMomentNs;
  for (int number = 1;;) {
    const unsigned long long began = now_ns(CLOCK_MONOTONIC);
    // What it costs is its own time, and not that of others who have the processor meanwhile.
    const unsigned long long spent = now_ns(CLOCK_THREAD_CPUTIME_ID);
    pthread_mutex_lock(&g_lock);
    look();
    if (began >= next_moment) {
      char name[32];
      snprintf(name, sizeof name, "moment.%d", number);
      dump_as(name);
      if (number % kMomentsPerStep == 0) between *= 2;
      ++number;
      next_moment = began + between;
    }
    pthread_mutex_unlock(&g_lock);
    const unsigned long long took = (now_ns(CLOCK_THREAD_CPUTIME_ID) - spent) * kCostFactor;
    const unsigned long long pause = took > kStepNs ? took : kStepNs;
    const struct timespec step = {(time_t)(pause / 1000000000ULL), (long)(pause % 1000000000ULL)};
    nanosleep(&step, NULL);
  }
  return NULL;
}

__attribute__((constructor)) static void begin(void) {
  const char* prefix = getenv("COFFER_MOMENTS");
  if (prefix == NULL || coffer_stats == NULL || coffer_profile_dump == NULL) return;
  const int length = snprintf(g_prefix, sizeof g_prefix, "%s", prefix);
  if (length <= 0 || (size_t)length >= sizeof g_prefix) {
    g_prefix[0] = 0;
    return;
  }
  // The program's signals go to its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// A program that lived shorter than a step, and freed nothing.
__attribute__((destructor)) static void end(void) {
  if (g_prefix[0] == 0 || pthread_mutex_trylock(&g_lock) != 0) return;
  look();
  pthread_mutex_unlock(&g_lock);
}
