// SPDX-License-Identifier: MIT
// Loaded by unwind_subject with dlopen.
#include <stddef.h>

typedef void (*Call)(size_t size);

static __attribute__((noinline, noclone)) void loaded_inner(Call call, size_t size) {
  char some[300];
  __asm__ volatile("" ::"r"(some) : "memory");
  call(size);
  __asm__ volatile("" ::: "memory");
}
void loaded_outer(Call call, size_t size);
void loaded_outer(Call call, size_t size) {
  loaded_inner(call, size);
  __asm__ volatile("" ::: "memory");
}
