// SPDX-License-Identifier: MIT
// Preloaded behind Coffer by `coffer heap`, `coffer leaks` and `coffer retainers`: has the heap profile written before
// a library is unloaded, for a profile says which file its code lies in; and for `coffer heap` at times that lie
// further apart the longer the program runs, by a thread. A thread and no signal: a signal would end the program's
// sleep() and poll() early.
//
// COFFER_MOMENTS=PREFIX; files are PREFIX.PROCESS.moment.NUMBER.pb.gz. Each gets its name when it is whole, for the
// program may end at any time. COFFER_MOMENTS_AT=unloads: only before a library is unloaded.
//
// COFFER_MOMENTS_END=NAME, for `coffer retainers`: the program waits at its end, before anything is taken down, until
// the command that started it has copied it. NAME is that of a socket in the abstract name space: if the command is
// killed, the wait is over.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
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
static atomic_int g_number;          // of moments that were begun
static atomic_ullong g_loads_known;  // libraries that had been loaded before one that was written, in all

static unsigned long long now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec;
}

static int note_loads(struct dl_phdr_info* info, size_t bytes, void* loads) {
  (void)bytes;
  *(unsigned long long*)loads = info->dlpi_adds;
  return 1;
}

static unsigned long long loads_so_far(void) {
  unsigned long long loads = 0;
  dl_iterate_phdr(note_loads, &loads);
  return loads;
}

// By any thread.
static void dump_moment(void) {
  const int number = atomic_fetch_add(&g_number, 1) + 1;
  // What is loaded meanwhile may not be in it.
  const unsigned long long loads = loads_so_far();
  char part[kPath], path[kPath];
  snprintf(part, sizeof part, "%s.%d.%d.part", g_prefix, (int)getpid(), number);
  snprintf(path, sizeof path, "%s.%d.moment.%d.pb.gz", g_prefix, (int)getpid(), number);
  if (coffer_profile_dump(part) != 0 || rename(part, path) != 0) {
    unlink(part);
  } else {
    unsigned long long known = atomic_load(&g_loads_known);
    while (known < loads && !atomic_compare_exchange_weak(&g_loads_known, &known, loads)) {
    }
  }
}

// For the program, in place of the C library's. Where nothing was loaded since the last moment, that one names all
// code; so there is at most one for each library that is loaded.
__attribute__((visibility("default"))) int dlclose(void* library) {
  if (g_prefix[0] != 0 && atomic_load(&g_loads_known) < loads_so_far()) dump_moment();
  int (*next)(void* library) = NULL;
  *(void**)&next = dlsym(RTLD_NEXT, "dlclose");
  return next(library);
}

static void sleep_ns(unsigned long long ns) {
  const struct timespec step = {(time_t)(ns / 1000000000ULL), (long)(ns % 1000000000ULL)};
  nanosleep(&step, NULL);
}

static void* run(void* unused) {
  (void)unused;
  unsigned long long between = kMomentNs;
  sleep_ns(kFirstNs);
  for (int looks = 1;; ++looks) {
    // What it costs is its own time, and not that of others who have the processor meanwhile.
    const unsigned long long spent = now_ns(CLOCK_THREAD_CPUTIME_ID);
    dump_moment();
    const unsigned long long took = (now_ns(CLOCK_THREAD_CPUTIME_ID) - spent) * kCostFactor;
    if (looks % kMomentsPerStep == 0) between *= 2;
    sleep_ns(took > between ? took : between);
  }
  return NULL;
}

static struct sockaddr_un g_end = {.sun_family = AF_UNIX};  // without a name: nobody waits for the end
static socklen_t g_end_bytes;
static atomic_flag g_has_ended = ATOMIC_FLAG_INIT;

static void wait_at_end(void) {
  if (g_end_bytes == 0 || atomic_flag_test_and_set(&g_has_ended)) return;
  const int end = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  char answer = 0;
  // Whoever is not waited for gets the end of the stream at once.
  if (end >= 0 && connect(end, (const struct sockaddr*)&g_end, g_end_bytes) == 0) {
    while (recv(end, &answer, 1, 0) < 0 && errno == EINTR) {
    }
  }
  if (end >= 0) close(end);
}

// For the program, in place of the C library's: main's return and exit(), both before what was registered for the end.
typedef int Main(int count, char** arguments, char** environment);
static Main* g_main;

static int main_and_wait(int count, char** arguments, char** environment) {
  const int status = g_main(count, arguments, environment);
  wait_at_end();
  return status;
}

typedef int Start(Main* main, int count, char** arguments, void (*init)(void), void (*fini)(void),
                  void (*loader_fini)(void), void* stack_end);
__attribute__((visibility("default"))) int __libc_start_main(Main* main, int count, char** arguments,
                                                             void (*init)(void), void (*fini)(void),
                                                             void (*loader_fini)(void), void* stack_end);
int __libc_start_main(Main* main, int count, char** arguments, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void* stack_end) {
  Start* next = NULL;
  *(void**)&next = dlsym(RTLD_NEXT, "__libc_start_main");
  g_main = main;
  return next(main_and_wait, count, arguments, init, fini, loader_fini, stack_end);
}

__attribute__((visibility("default"), noreturn)) void exit(int status) {
  void (*next)(int status) __attribute__((noreturn)) = NULL;
  *(void**)&next = dlsym(RTLD_NEXT, "exit");
  wait_at_end();
  next(status);
}

static void prepare_end(void) {
  const char* name = getenv("COFFER_MOMENTS_END");
  if (name == NULL || strlen(name) + 2 > sizeof g_end.sun_path) return;
  // The first byte is 0 and the name has no end.
  memcpy(g_end.sun_path + 1, name, strlen(name));
  g_end_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  // Where only ancestors may trace a process, and the one that will is our sibling.
  prctl(PR_SET_PTRACER, (unsigned long)getppid(), 0UL, 0UL, 0UL);
}

__attribute__((constructor)) static void begin(void) {
  prepare_end();
  const char* prefix = getenv("COFFER_MOMENTS");
  if (prefix == NULL || coffer_profile_dump == NULL || strlen(prefix) >= sizeof g_prefix) return;
  strcpy(g_prefix, prefix);
  const char* at = getenv("COFFER_MOMENTS_AT");
  if (at != NULL && strcmp(at, "unloads") == 0) return;
  // The program's signals go to its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}
