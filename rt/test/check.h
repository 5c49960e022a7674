/* SPDX-License-Identifier: MIT */
// What the tests of rt/ stand on: they run with a C library, and without one on the processors that qemu plays.
#ifndef COFFER_RT_TEST_CHECK_H
#define COFFER_RT_TEST_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef RT_NO_LIBC
// start.c has them.
void rt_put(const char* text);
_Noreturn void rt_exit(int status);
#else
#include <stdio.h>
#include <stdlib.h>
static inline void rt_put(const char* text) { (void)fputs(text, stdout); }
static inline _Noreturn void rt_exit(int status) {
  (void)fflush(stdout);
  exit(status);
}
#endif

static inline void rt_put_number(uint64_t number) {
  char digits[24];
  size_t at = sizeof(digits) - 1U;
  digits[at] = '\0';
  do {
    --at;
    digits[at] = (char)('0' + (char)(number % 10U));
    number /= 10U;
  } while (number != 0U);
  rt_put(&digits[at]);
}

static inline _Noreturn void rt_fail(const char* file, int line, const char* what) {
  rt_put(file);
  rt_put(":");
  rt_put_number((uint64_t)line);
  rt_put(": not true: ");
  rt_put(what);
  rt_put("\n");
  rt_exit(1);
}

#define CHECK(condition) ((condition) ? (void)0 : rt_fail(__FILE__, __LINE__, #condition))

static inline uint64_t rt_parse(const char* text) {
  uint64_t number = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    number = (number * 10U) + (uint64_t)(*text - '0');
  }
  return number;
}

// xorshift64*
static inline uint64_t rt_random(uint64_t* state) {
  *state ^= *state >> 12U;
  *state ^= *state << 25U;
  *state ^= *state >> 27U;
  return (*state * 0x2545F4914F6CDD1DULL) >> 16U;
}

#endif
