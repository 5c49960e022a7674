/* SPDX-License-Identifier: MIT */
/* Checks for small programs: no test framework, since what they link is what is tested. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) \
  ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition), exit(1)))

/* An object behind this is not known to the compiler: it can neither drop an allocation nor prove a comparison. */
static inline void* opaque(void* pointer) {
  __asm__ volatile("" : "+r"(pointer) : : "memory");
  return pointer;
}

#endif
