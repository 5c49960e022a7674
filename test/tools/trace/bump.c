// SPDX-License-Identifier: MIT
// An allocator whose malloc may be interrupted by its own malloc: it only ever adds. All threads share one gigabyte.
// Only blocks of kAgain bytes are one block again and again, with a call of the system before each.
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static _Alignas(64) char g_memory[(size_t)1 << 30];
static size_t g_used;
enum { kAgain = 54321 };
static _Alignas(65536) char g_again[65536 * 2];

static void* again(void) {
  char* const block = g_again + 65536;
  madvise(block, sizeof g_again / 2, MADV_DONTNEED);
  const size_t size = kAgain;
  memcpy(block - 16, &size, sizeof size);
  return block;
}

static void* take(size_t alignment, size_t size) {
  if (size > sizeof g_memory / 2 || alignment > 65536) return NULL;
  const size_t start = __atomic_fetch_add(&g_used, size + alignment + 16, __ATOMIC_RELAXED);
  if (start + size + alignment + 16 > sizeof g_memory) return NULL;
  const uintptr_t block = ((uintptr_t)g_memory + start + 16 + alignment - 1) & ~(uintptr_t)(alignment - 1);
  memcpy((char*)block - 16, &size, sizeof size);
  return (void*)block;
}

void* malloc(size_t size) { return size == kAgain ? again() : take(16, size); }
void free(void* block) { (void)block; }
void* calloc(size_t count, size_t size) { return take(16, count * size); }
void* realloc(void* block, size_t size) {
  void* const moved = take(16, size);
  if (block != NULL && moved != NULL) {
    size_t old;
    memcpy(&old, (char*)block - 16, sizeof old);
    memcpy(moved, block, old < size ? old : size);
  }
  return moved;
}
void* memalign(size_t alignment, size_t size) { return take(alignment < 16 ? 16 : alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** result, size_t alignment, size_t size) {
  *result = memalign(alignment, size);
  return *result == NULL ? 12 : 0;
}
void* valloc(size_t size) { return take(4096, size); }
void* pvalloc(size_t size) { return take(4096, (size + 4095) / 4096 * 4096); }
size_t malloc_usable_size(void* block) {
  size_t size = 0;
  if (block != NULL) memcpy(&size, (char*)block - 16, sizeof size);
  return size;
}
