// SPDX-License-Identifier: MIT
// What the test of unwind tables records, compiled without frame pointers. Each size below has a chain of calls of its
// own, with frames of every kind: unwind_subject LIBRARY.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT __attribute__((noinline, noclone))
#define NOT_LAST __asm__ volatile("" ::: "memory")
#define USE(what) __asm__ volatile("" ::"r"(what) : "memory")

static void* volatile g_keep;

KEPT static void allocate(size_t size) {
  g_keep = malloc(size);
  free(g_keep);
}
KEPT static void plain_inner(size_t size) {
  allocate(size);
  NOT_LAST;
}
KEPT static void plain_outer(size_t size) {
  char some[200];
  USE(some);
  plain_inner(size);
  NOT_LAST;
}
// More than the displacement of a byte, or of two.
KEPT static void huge_frame(size_t size) {
  char many[100000];
  USE(many);
  plain_outer(size);
  NOT_LAST;
}
// Its size is known at run time: the frame pointer is kept.
KEPT static void variable_frame(size_t size) {
  char* const some = __builtin_alloca(size % 1000 + 1);
  USE(some);
  plain_outer(size);
  NOT_LAST;
}
KEPT static void realigned_frame(size_t size) {
  char some[64] __attribute__((aligned(64)));
  USE(some);
  variable_frame(size);
  NOT_LAST;
}
// Both: where the caller's frame is lies in the frame.
KEPT static void realigned_variable(size_t size, long a, long b, long c, long d, long e, long f, long g) {
  char some[64] __attribute__((aligned(64)));
  char* const more = __builtin_alloca(size % 100 + 1);
  USE(some);
  USE(more);
  USE(a + b + c + d + e + f + g);
  realigned_frame(size);
  NOT_LAST;
}
KEPT static void many_registers(size_t size, const long* numbers) {
  const long a = numbers[0], b = numbers[1], c = numbers[2], d = numbers[3], e = numbers[4], f = numbers[5];
  realigned_variable(size, a, b, c, d, e, f, a);
  NOT_LAST;
  g_keep = (void*)(a * b ^ c * d ^ e * f);
}
KEPT static void recursive(size_t size, int depth) {
  if (depth == 0) {
    plain_outer(size);
  } else {
    recursive(size, depth - 1);
  }
  NOT_LAST;
}
KEPT static void in_handler(int number) {
  (void)number;
  plain_inner(1005);
  NOT_LAST;
}
KEPT static void interrupted(void) {
  raise(SIGUSR1);
  NOT_LAST;
}
static int compare(const void* a, const void* b) {
  plain_inner(1006);
  return *(const int*)a - *(const int*)b;
}
KEPT static void sort(void) {
  int numbers[2] = {2, 1};
  qsort(numbers, 2, sizeof *numbers, compare);
  NOT_LAST;
}
KEPT static void* thread_body(void* size) {
  plain_outer((size_t)size);
  NOT_LAST;
  return NULL;
}

int main(int argc, char** argv) {
  const long numbers[] = {argc, 2, 3, 4, 5, 6};
  plain_outer(1001);
  huge_frame(1002);
  many_registers(1003, numbers);
  recursive(1004, 10);
  static char stack[65536];
  const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&other, NULL);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = in_handler;
  sigaction(SIGUSR1, &action, NULL);
  interrupted();
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, NULL);
  interrupted();
  sort();
  pthread_t thread;
  pthread_create(&thread, NULL, thread_body, (void*)1007);
  pthread_join(thread, NULL);
  // Twice, in another place perhaps.
  for (size_t i = 0; argc > 1 && i < 2; ++i) {
    void* const library = dlopen(argv[1], RTLD_NOW);
    if (library == NULL) return 3;
    void (*const call)(void (*)(size_t), size_t) = (void (*)(void (*)(size_t), size_t))dlsym(library, "loaded_outer");
    call(plain_inner, 1008 + i);
    usleep(300000);  // the collector looks at what is mapped now and then
    dlclose(library);
  }
  puts("done");
  return 0;
}
