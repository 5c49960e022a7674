// SPDX-License-Identifier: MIT
// What is asked by test_attach.py. Threads compute, wait in the ways that programs wait, and allocate; each counts what
// no thread should see: a call that ends by EINTR, a wait that ends early, registers or blocks that changed.
//
//   attach_program work          until its standard input ends; then prints a line: rounds, interrupted, broken
//   attach_program wait          one thread, in pause
//   attach_program filter        the same, with a seccomp filter
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { kWaitMs = 20, kKept = 200, kThreads = 7 };

static atomic_int g_over;
static atomic_long g_interrupted, g_broken;
static long g_rounds[kThreads];
static int g_events;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void check_wait(int result, double begun) {
  if (result < 0) atomic_fetch_add(errno == EINTR ? &g_interrupted : &g_broken, 1);
  if (result >= 0 && now() - begun < kWaitMs * 1e-3) atomic_fetch_add(&g_broken, 1);
}

static void compute(void) {
  const double first = 1.25, second = -3.5;
  double a = first, b = second;
  for (int i = 0; i < 200000; ++i) __asm__ volatile("" : "+x"(a), "+x"(b));
  unsigned long sum = 0;
  for (unsigned long i = 0; i < 100000; ++i) {
    sum += i;
    __asm__ volatile("" : "+r"(sum));
  }
  if (a != first || b != second || sum != 100000ul * 99999 / 2) atomic_fetch_add(&g_broken, 1);
}

static void wait_in_poll(void) {
  const double begun = now();
  check_wait(poll(NULL, 0, kWaitMs), begun);
}

static void sleep_once(void) {
  const double begun = now();
  const struct timespec time = {0, kWaitMs * 1000000L};
  check_wait(nanosleep(&time, NULL), begun);
}

static void wait_in_epoll(void) {
  static __thread int waits = -1;
  if (waits < 0) waits = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event;
  const double begun = now();
  check_wait(epoll_wait(waits, &event, 1, kWaitMs), begun);
}

static void wait_for_event(void) {
  static __thread int waits = -1;
  struct epoll_event event = {.events = EPOLLIN};
  if (waits < 0) {
    waits = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(waits, EPOLL_CTL_ADD, g_events, &event);
  }
  const int got = epoll_wait(waits, &event, 1, -1);
  unsigned long long number = 0;
  if (got < 0) atomic_fetch_add(errno == EINTR ? &g_interrupted : &g_broken, 1);
  if (got == 1 && read(g_events, &number, sizeof number) != sizeof number) atomic_fetch_add(&g_broken, 1);
}

static void send_event(void) {
  const unsigned long long one = 1;
  sleep_once();
  if (write(g_events, &one, sizeof one) != sizeof one) atomic_fetch_add(&g_broken, 1);
}

static void allocate(void) {
  static __thread unsigned char* kept[kKept];
  static __thread unsigned number = 1;
  for (int i = 0; i < 1000; ++i) {
    number = number * 1103515245u + 12345;
    const unsigned at = number / 65536 % kKept;
    if (kept[at] != NULL && (kept[at][1] != at || kept[at][15] != at)) atomic_fetch_add(&g_broken, 1);
    free(kept[at]);
    kept[at] = malloc(16 + number / 4096 % 4096);
    memset(kept[at], (int)at, 16);
  }
}

static void (*const kWork[kThreads])(void) = {compute,        wait_in_poll, sleep_once, wait_in_epoll,
                                              wait_for_event, send_event,   allocate};

static void* work(void* number) {
  const int which = *(const int*)number;
  for (; !atomic_load(&g_over); ++g_rounds[which]) kWork[which]();
  return NULL;
}

static int work_until_the_end(void) {
  pthread_t threads[kThreads];
  int numbers[kThreads];
  g_events = eventfd(0, EFD_CLOEXEC);
  for (int i = 0; i < kThreads; ++i) {
    numbers[i] = i;
    pthread_create(&threads[i], NULL, work, &numbers[i]);
  }
  puts("ready");
  char byte;
  while (read(0, &byte, 1) > 0) continue;
  atomic_store(&g_over, 1);
  for (int i = 0; i < kThreads; ++i) {
    if (i == 4) write(g_events, &(unsigned long long){1}, 8);
    pthread_join(threads[i], NULL);
  }
  long least = g_rounds[0];
  for (int i = 1; i < kThreads; ++i) least = g_rounds[i] < least ? g_rounds[i] : least;
  printf("%ld %ld %ld\n", least, atomic_load(&g_interrupted), atomic_load(&g_broken));
  return 0;
}

static void filter(void) {
  struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {1, allow};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(2);
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  const char* what = argc > 1 ? argv[1] : "";
  free(malloc(100));
  if (strcmp(what, "work") == 0) return work_until_the_end();
  if (strcmp(what, "filter") == 0) filter();
  puts("ready");
  for (;;) pause();
}
