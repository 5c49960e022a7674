// SPDX-License-Identifier: MIT
// What the C libraries' headers say differently about malloc and its kin.
#pragma once

#include <malloc.h>
#include <stddef.h>

// glibc's headers tell C++ that its functions throw nothing. musl's do not, and whoever declares the same function
// again has to say the same.
#ifdef __GLIBC__
#define COFFER_AS_DECLARED noexcept
#else
#define COFFER_AS_DECLARED
#endif

// musl has none of these types and numbers, glibc before 2.33 has no mallinfo2. Programs that were made with a glibc
// that has them may run over both, so the functions are always there.
#ifdef __GLIBC__
#define COFFER_HAS_MALLINFO2 __GLIBC_PREREQ(2, 33)
#else
#define COFFER_HAS_MALLINFO2 0
struct mallinfo {
  int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif
#if !COFFER_HAS_MALLINFO2
struct mallinfo2 {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif
#ifndef M_MXFAST
#define M_MXFAST 1
#define M_NLBLKS 2
#define M_GRAIN 3
#define M_KEEP 4
#define M_TRIM_THRESHOLD (-1)
#define M_TOP_PAD (-2)
#define M_MMAP_THRESHOLD (-3)
#define M_MMAP_MAX (-4)
#define M_CHECK_ACTION (-5)
#define M_PERTURB (-6)
#define M_ARENA_TEST (-7)
#define M_ARENA_MAX (-8)
#endif
