/* SPDX-License-Identifier: MIT */
/* What jemalloc's integration tests expect of their test library, by the same names: over the malloc of the process and
 * without anything of jemalloc. Requests to its control interface are answered with what holds for any malloc: a purge
 * is malloc_trim, the largest size class is PTRDIFF_MAX - 1. */
#ifndef OUTSIDE_JEMALLOC_TEST_H
#define OUTSIDE_JEMALLOC_TEST_H

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE_T_MAX SIZE_MAX
#define LG_SIZEOF_PTR 3
#define BUFERROR_BUF 64
#define TEST_MALLOC_SIZE malloc_usable_size
#define JEMALLOC_DIAGNOSTIC_PUSH
#define JEMALLOC_DIAGNOSTIC_POP
#define JEMALLOC_DIAGNOSTIC_IGNORE_ALLOC_SIZE_LARGER_THAN

static int outside_failures;

__attribute__((unused, format(printf, 1, 2))) static void test_fail(const char* form, ...) {
  va_list arguments;
  va_start(arguments, form);
  fputs("failed: ", stderr);
  vfprintf(stderr, form, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  outside_failures = 1;
}

#define OUTSIDE_EXPECT(condition, ...)                                                              \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      fprintf(stderr, "%s:%d: failed: %s: ", strrchr("/" __FILE__, '/') + 1, __LINE__, #condition); \
      test_fail(__VA_ARGS__);                                                                       \
    }                                                                                               \
  } while (0)
#define expect_true(value, ...) OUTSIDE_EXPECT((value), __VA_ARGS__)
#define expect_false(value, ...) OUTSIDE_EXPECT(!(value), __VA_ARGS__)
#define expect_d_eq(left, right, ...) OUTSIDE_EXPECT((left) == (right), __VA_ARGS__)
#define expect_d_ne(left, right, ...) OUTSIDE_EXPECT((left) != (right), __VA_ARGS__)
#define expect_ptr_null(block, ...) OUTSIDE_EXPECT((block) == NULL, __VA_ARGS__)
#define expect_ptr_not_null(block, ...) OUTSIDE_EXPECT((block) != NULL, __VA_ARGS__)
#define assert(condition) ((condition) ? (void)0 : (fprintf(stderr, "failed: %s\n", #condition), abort()))

#define TEST_BEGIN(name) static void name(void) {
#define TEST_END }
#define test(...)                                                                                         \
  ({                                                                                                      \
    void (*const outside_tests[])(void) = {__VA_ARGS__};                                                  \
    for (size_t at = 0; at < sizeof(outside_tests) / sizeof(outside_tests[0]); ++at) outside_tests[at](); \
    outside_failures;                                                                                     \
  })
#define test_no_reentrancy(...) test(__VA_ARGS__)

__attribute__((unused)) static void set_errno(int value) { errno = value; }
__attribute__((unused)) static int get_errno(void) { return errno; }
__attribute__((unused)) static void buferror(int number, char* text, size_t size) {
  snprintf(text, size, "errno %d", number);
}

typedef pthread_t thd_t;
__attribute__((unused)) static void thd_create(thd_t* thread, void* (*body)(void*), void* argument) {
  if (pthread_create(thread, NULL, body, argument) != 0) abort();
}
__attribute__((unused)) static void thd_join(thd_t thread, void** result) {
  if (pthread_join(thread, result) != 0) abort();
}

/* Arenas are made and taken by name only: there is one. */
__attribute__((unused)) static int mallctl(const char* name, void* old, size_t* old_size, void* value, size_t size) {
  (void)value;
  (void)size;
  if (strcmp(name, "arena.0.purge") == 0) return malloc_trim(0), 0;
  if (old != NULL && old_size != NULL && *old_size == sizeof(unsigned)) return *(unsigned*)old = 1, 0;
  return ENOENT;
}
__attribute__((unused)) static int mallctlnametomib(const char* name, size_t* mib, size_t* length) {
  (void)mib;
  (void)length;
  return strcmp(name, "arenas.lextent.0.size") == 0 ? 0 : ENOENT;
}
__attribute__((unused)) static int mallctlbymib(const size_t* mib, size_t length, void* old, size_t* old_size,
                                                void* value, size_t size) {
  (void)mib;
  (void)length;
  (void)old_size;
  (void)value;
  (void)size;
  *(size_t*)old = PTRDIFF_MAX - 1;
  return 0;
}

#endif
