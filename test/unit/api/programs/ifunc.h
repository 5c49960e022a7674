/* SPDX-License-Identifier: MIT */
/* An indirect function whose resolver allocates in every way, and the blocks that it leaves to be freed later. The
 * dynamic linker calls it before the thread-local variables have their values (issue 16). NAME begins all names. */
#include <stdlib.h>
#include <string.h>

#define IFUNC_JOIN(a, b) a##_##b
#define IFUNC_NAME(a, b) IFUNC_JOIN(a, b)
#define IFUNC_TEXT(x) #x
#define IFUNC_QUOTE(x) IFUNC_TEXT(x)

enum { kKept = 6, kMany = 2000 };
static void* kept[kKept];

static int one(void) { return 1; }

/* No check of check.h: streams are not there yet. */
static void expect(int holds) {
  if (!holds) abort();
}

static void allocate_in_every_way(void) {
  free(NULL);
  char* block = calloc(10, 100);
  expect(block != NULL && block[0] == 0 && block[999] == 0);
  memset(block, 1, 1000);
  block = realloc(block, 50000);
  expect(block != NULL && block[999] == 1);
  free(block);
  block = malloc(3000000);
  expect(block != NULL);
  memset(block, 2, 3000000);
  block = realloc(block, 6000000);
  expect(block != NULL && block[2999999] == 2);
  free(block);
  static void* many[kMany];
  for (size_t i = 0; i < kMany; ++i) expect((many[i] = malloc(i)) != NULL);
  for (size_t i = 0; i < kMany; ++i) free(many[i]);
  for (size_t i = 0; i < kKept; ++i) {
    kept[i] = i % 2 != 0 ? aligned_alloc(64, 64) : malloc((size_t)100 << (3 * i));
    expect(kept[i] != NULL);
    memset(kept[i], (int)i, 64);
  }
}

int (*IFUNC_NAME(NAME, resolve)(void))(void);
int (*IFUNC_NAME(NAME, resolve)(void))(void) {
  allocate_in_every_way();
  return one;
}

/* Of this object alone: such ones are resolved when the rest of its object is relocated. */
static int answer(void) __attribute__((ifunc(IFUNC_QUOTE(NAME) "_resolve")));

/* 1 if all is well. */
int IFUNC_NAME(NAME, use)(void);
int IFUNC_NAME(NAME, use)(void) {
  for (size_t i = 0; i < kKept; ++i) {
    expect(((char*)kept[i])[63] == (char)i);
    free(kept[i]);
  }
  allocate_in_every_way();
  for (size_t i = 0; i < kKept; ++i) free(kept[i]);
  return answer();
}
