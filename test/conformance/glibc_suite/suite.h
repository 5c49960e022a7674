/* SPDX-License-Identifier: MIT */
/* What the tests of glibc's malloc expect of their test driver and support library, by the same names: enough of it to
 * compile them outside glibc's tree. Each of the headers that they include becomes this one (run.py). */
#ifndef GLIBC_SUITE_SUITE_H
#define GLIBC_SUITE_SUITE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT 20

static int suite_failures;
static int test_verbose __attribute__((unused));

#define SUITE_FAIL(...) \
  (suite_failures = 1, printf("%s:%d: ", __FILE__, __LINE__), printf(__VA_ARGS__), putchar('\n'), fflush(stdout))
#define FAIL(...) SUITE_FAIL(__VA_ARGS__)
#define FAIL_RET(...) return (SUITE_FAIL(__VA_ARGS__), 1)
#define FAIL_EXIT(status, ...) (SUITE_FAIL(__VA_ARGS__), exit(status))
#define FAIL_EXIT1(...) FAIL_EXIT(1, __VA_ARGS__)
#define FAIL_UNSUPPORTED(...) FAIL_EXIT(77, __VA_ARGS__)
#define TEST_VERIFY(expression) ((expression) ? (void)0 : (void)SUITE_FAIL("not true: %s", #expression))
#define TEST_VERIFY_EXIT(expression) ((expression) ? (void)0 : FAIL_EXIT1("not true: %s", #expression))
#define TEST_COMPARE(left, right)                                                                                \
  ({                                                                                                             \
    const long long left_value = (long long)(left), right_value = (long long)(right);                            \
    if (left_value != right_value) SUITE_FAIL("%s is %lld, %s is %lld", #left, left_value, #right, right_value); \
  })

#define array_length(array) (sizeof(array) / sizeof((array)[0]))
#define array_end(array) (&(array)[array_length(array)])
#define DIAG_PUSH_NEEDS_COMMENT _Pragma("GCC diagnostic push")
#define DIAG_POP_NEEDS_COMMENT _Pragma("GCC diagnostic pop")
#define DIAG_IGNORE_NEEDS_COMMENT(version, option)
#define DIAG_IGNORE_O_NEEDS_COMMENT(version, option)
#ifndef __GNUC_PREREQ
#define __GNUC_PREREQ(major, minor) 1
#endif

#define SUITE_UNUSED __attribute__((unused)) static
#define SUITE_CHECK(call)                                                     \
  do {                                                                        \
    const int suite_error = (call);                                           \
    if (suite_error != 0) FAIL_EXIT1("%s: %s", #call, strerror(suite_error)); \
  } while (0)

SUITE_UNUSED void* suite_block(void* block) {
  if (block == NULL) FAIL_EXIT1("out of memory");
  return block;
}
SUITE_UNUSED void* xmalloc(size_t size) { return suite_block(malloc(size)); }
SUITE_UNUSED void* xcalloc(size_t count, size_t size) { return suite_block(calloc(count, size)); }
SUITE_UNUSED void* xrealloc(void* block, size_t size) { return suite_block(realloc(block, size)); }

SUITE_UNUSED pthread_t xpthread_create(pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  pthread_t thread;
  SUITE_CHECK(pthread_create(&thread, attributes, body, argument));
  return thread;
}
SUITE_UNUSED void* xpthread_join(pthread_t thread) {
  void* result;
  SUITE_CHECK(pthread_join(thread, &result));
  return result;
}
SUITE_UNUSED void xpthread_kill(pthread_t thread, int number) { SUITE_CHECK(pthread_kill(thread, number)); }
SUITE_UNUSED void xpthread_barrier_init(pthread_barrier_t* barrier, pthread_barrierattr_t* attributes, unsigned count) {
  SUITE_CHECK(pthread_barrier_init(barrier, attributes, count));
}
SUITE_UNUSED int xpthread_barrier_wait(pthread_barrier_t* barrier) {
  const int result = pthread_barrier_wait(barrier);
  if (result != 0 && result != PTHREAD_BARRIER_SERIAL_THREAD) FAIL_EXIT1("pthread_barrier_wait: %d", result);
  return result == PTHREAD_BARRIER_SERIAL_THREAD;
}
SUITE_UNUSED void xpthread_barrier_destroy(pthread_barrier_t* barrier) {
  SUITE_CHECK(pthread_barrier_destroy(barrier));
}
SUITE_UNUSED void xpthread_barrierattr_init(pthread_barrierattr_t* attributes) {
  SUITE_CHECK(pthread_barrierattr_init(attributes));
}
SUITE_UNUSED void xpthread_barrierattr_setpshared(pthread_barrierattr_t* attributes, int value) {
  SUITE_CHECK(pthread_barrierattr_setpshared(attributes, value));
}
SUITE_UNUSED void xpthread_barrierattr_destroy(pthread_barrierattr_t* attributes) {
  SUITE_CHECK(pthread_barrierattr_destroy(attributes));
}
SUITE_UNUSED void xpthread_attr_setguardsize(pthread_attr_t* attributes, size_t size) {
  SUITE_CHECK(pthread_attr_setguardsize(attributes, size));
}
SUITE_UNUSED void xsigaction(int number, const struct sigaction* action, struct sigaction* before) {
  if (sigaction(number, action, before) != 0) FAIL_EXIT1("sigaction: %s", strerror(errno));
}

SUITE_UNUSED sighandler_t xsignal(int number, sighandler_t handler) {
  const sighandler_t before = signal(number, handler);
  if (before == SIG_ERR) FAIL_EXIT1("signal: %s", strerror(errno));
  return before;
}

SUITE_UNUSED pid_t xfork(void) {
  const pid_t child = fork();
  if (child < 0) FAIL_EXIT1("fork: %s", strerror(errno));
  return child;
}
SUITE_UNUSED pid_t xwaitpid(pid_t process, int* status, int options) {
  const pid_t ended = waitpid(process, status, options);
  if (ended < 0) FAIL_EXIT1("waitpid: %s", strerror(errno));
  return ended;
}
SUITE_UNUSED void* xmmap(void* address, size_t length, int protection, int flags, int file) {
  void* got = mmap(address, length, protection, flags, file, 0);
  if (got == MAP_FAILED) FAIL_EXIT1("mmap: %s", strerror(errno));
  return got;
}
SUITE_UNUSED void xmunmap(void* address, size_t length) {
  if (munmap(address, length) != 0) FAIL_EXIT1("munmap: %s", strerror(errno));
}
SUITE_UNUSED int xopen(const char* path, int flags, mode_t mode) {
  const int file = open(path, flags, mode);
  if (file < 0) FAIL_EXIT1("open %s: %s", path, strerror(errno));
  return file;
}
SUITE_UNUSED int create_temp_file(const char* base, char** name) {
  char* path = NULL;
  const char* const directory = getenv("TMPDIR"); /* the driver's, which it removes */
  if (asprintf(&path, "%s/%sXXXXXX", directory != NULL ? directory : "/tmp", base) < 0) FAIL_EXIT1("out of memory");
  const int file = mkstemp(path);
  if (name != NULL) *name = path;
  return file;
}
SUITE_UNUSED void* support_shared_allocate(size_t size) {
  size_t* const got = xmmap(NULL, size + 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
  *got = size;
  return (char*)got + 64;
}
SUITE_UNUSED void support_shared_free(void* block) {
  char* const start = (char*)block - 64;
  xmunmap(start, *(size_t*)(void*)start + 64);
}
SUITE_UNUSED void write_message(const char* text) {
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) return;
}

#endif
