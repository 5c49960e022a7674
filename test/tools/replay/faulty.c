// SPDX-License-Identifier: MIT
// Allocators with a fault each (FAULT, by number), for the tests of coffer replay: none of them may pass unnoticed.
//  1 gives no memory after a while          2 crashes in a free          3 gives a block out twice
//  4 calloc does not clear                  5 forgets alignment          6 never comes back from a free
//  7 realloc loses what was in the block
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBytes = 64 << 20, kAfter = 300 };

static char* arena;
static size_t used;
static unsigned allocations, frees;
static volatile int* volatile nowhere;

static void* carve(size_t size, size_t alignment) {
  if (arena == NULL) {
    arena = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) abort();
  }
  ++allocations;
  if (FAULT == 1 && allocations > kAfter) {
    errno = ENOMEM;
    return NULL;
  }
  static char* previous;
  static size_t previous_size;
  if (FAULT == 3 && allocations > kAfter && allocations % 7 == 0 && size <= previous_size) return previous;
  size_t at = (used + 16 + alignment - 1) / alignment * alignment;
  if (FAULT == 5 && alignment > 16) at += 16;
  if (at + size > kBytes) {
    errno = ENOMEM;
    return NULL;
  }
  used = at + size;
  memcpy(arena + at - 8, &size, 8);
  previous = arena + at;
  previous_size = size;
  return arena + at;
}

void* malloc(size_t size) { return carve(size, 16); }

void* calloc(size_t count, size_t size) {
  char* block = carve(count * size, 16);
  if (FAULT == 4 && block != NULL) memset(block, 0xAA, count * size);
  return block;
}

void* realloc(void* old, size_t size) {
  char* block = carve(size, 16);
  size_t had = 0;
  if (old != NULL) memcpy(&had, (char*)old - 8, 8);
  if (FAULT != 7 && block != NULL && had != 0) memcpy(block, old, had < size ? had : size);
  return block;
}

int posix_memalign(void** to, size_t alignment, size_t size) {
  *to = carve(size, alignment < 16 ? 16 : alignment);
  return *to == NULL ? ENOMEM : 0;
}

void free(void* block) {
  if (block == NULL) return;
  ++frees;
  if (FAULT == 2 && frees > kAfter) *nowhere = 1;
  while (FAULT == 6 && frees > kAfter) pause();
}
