// SPDX-License-Identifier: MIT
// A loop that must not wait: its blocks come from a heap of their own, which is in memory before the loop begins.
//   cc loop.c -o loop -lcoffer
#include <coffer/coffer.h>
#include <stdio.h>
#include <sys/resource.h>

int main(void) {
  struct coffer_heap_options options = {0};
  options.allow_unlocked = 1;  // where RLIMIT_MEMLOCK is too low: in memory, but the kernel may take it back
  struct coffer_heap* heap = coffer_heap_create(8 << 20, &options);
  if (heap == NULL) {
    perror("coffer_heap_create");
    return 1;
  }
  void* blocks[1000] = {0};
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  long failed = 0;
  for (long i = 0; i < 1000000; ++i) {
    void** block = &blocks[i * 7919 % 1000];
    if (*block != NULL) coffer_heap_free(heap, *block);
    *block = coffer_heap_malloc(heap, (size_t)(16 + i % 2000));
    if (*block == NULL)
      ++failed;
    else
      *(char*)*block = 1;
  }
  getrusage(RUSAGE_SELF, &after);
  printf("1000000 blocks: %ld failed, %ld page faults\n", failed, after.ru_minflt - before.ru_minflt);
  coffer_heap_destroy(heap);
  return 0;
}
