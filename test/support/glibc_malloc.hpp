// SPDX-License-Identifier: MIT
// What glibc's <malloc.h> declares and Coffer has with every C library. Elsewhere a program knows only when it runs
// whether they are there, so they are weak.
#pragma once

#include <malloc.h>

#include <cstddef>
#include <cstdio>

// Puts another stream in the place of stderr, which musl does not let a program do: there nothing happens.
inline void replace_stderr([[maybe_unused]] FILE* stream) {
#ifdef __GLIBC__
  stderr = stream;
#endif
}

#ifndef __GLIBC__
struct mallinfo {
  int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 {
  std::size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
extern "C" {
[[gnu::weak]] struct mallinfo mallinfo();
[[gnu::weak]] struct mallinfo2 mallinfo2();
[[gnu::weak]] int malloc_info(int options, FILE* stream);
[[gnu::weak]] void malloc_stats();
[[gnu::weak]] int malloc_trim(std::size_t pad);
[[gnu::weak]] int mallopt(int parameter, int value);
[[gnu::weak]] void* pvalloc(std::size_t size);
}
#define M_MXFAST 1
#define M_TRIM_THRESHOLD (-1)
#define M_TOP_PAD (-2)
#define M_MMAP_THRESHOLD (-3)
#define M_MMAP_MAX (-4)
#define M_CHECK_ACTION (-5)
#define M_PERTURB (-6)
#define M_ARENA_TEST (-7)
#define M_ARENA_MAX (-8)
#endif
