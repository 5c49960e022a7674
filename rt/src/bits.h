/* SPDX-License-Identifier: MIT */
// Words of bits: the lowest one, the highest one, runs of free units.
//
// A word holds COFFER_RT_RADIX units, as many as a register has bits. Tests build with a smaller radix, so that tiny
// heaps have several levels; the upper bits of a word are 0 then.
#ifndef COFFER_RT_BITS_H
#define COFFER_RT_BITS_H

#include <stddef.h>
#include <stdint.h>

#if UINTPTR_MAX > 0xFFFFFFFFU
typedef uint64_t rt_word;
#define COFFER_RT_WORD_LOG2 6
#else
typedef uint32_t rt_word;
#define COFFER_RT_WORD_LOG2 5
#endif

_Static_assert(sizeof(size_t) == sizeof(rt_word), "sizes and addresses have 32 or 64 bits");

#ifndef COFFER_RT_RADIX_LOG2
#define COFFER_RT_RADIX_LOG2 COFFER_RT_WORD_LOG2
#endif
#define RT_RADIX_LOG2 ((unsigned)COFFER_RT_RADIX_LOG2)
#define RT_RADIX (1U << RT_RADIX_LOG2)
// All units of a word.
#define RT_FULL ((rt_word)(~(rt_word)0 >> ((1U << COFFER_RT_WORD_LOG2) - RT_RADIX)))

// Do the compiler's builtins become instructions? Without one (RISC-V without Zbb) they would call libgcc.
#if !defined(COFFER_RT_PORTABLE_BITS) &&                                                         \
    (defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__powerpc__) || \
     (defined(__ARM_ARCH) && __ARM_ARCH >= 7) || defined(__riscv_zbb))
#define RT_HAS_SCAN 1
#else
#define RT_HAS_SCAN 0
#endif

#if RT_HAS_SCAN

// The index of the lowest bit of x, which is not 0.
static inline unsigned rt_lowest(rt_word x) {
  return sizeof(x) == 8U ? (unsigned)__builtin_ctzll(x) : (unsigned)__builtin_ctz((unsigned)x);
}

// The index of the highest bit of x, which is not 0.
static inline unsigned rt_highest(size_t x) {
  return sizeof(x) == 8U ? 63U - (unsigned)__builtin_clzll(x) : 31U - (unsigned)__builtin_clz((unsigned)x);
}

// How many bits x has, leading zeros left out.
static inline unsigned rt_bits(size_t x) { return x == 0U ? 0U : rt_highest(x) + 1U; }

#else

// Multiplying the lowest bit by a de Bruijn sequence brings a different number into the top bits for each position.
#if UINTPTR_MAX > 0xFFFFFFFFU
#define RT_INDEX_TABLE                                                                     \
  {0,  1,  48, 2,  57, 49, 28, 3,  61, 58, 50, 42, 38, 29, 17, 4,  62, 55, 59, 36, 53, 51, \
   43, 22, 45, 39, 33, 30, 24, 18, 12, 5,  63, 47, 56, 27, 60, 41, 37, 16, 54, 35, 52, 21, \
   44, 32, 23, 11, 46, 26, 40, 15, 34, 20, 31, 10, 25, 14, 19, 9,  13, 8,  7,  6}
#else
#define RT_INDEX_TABLE \
  {0, 1, 28, 2, 29, 14, 24, 3, 30, 22, 20, 15, 25, 17, 4, 8, 31, 27, 13, 23, 21, 19, 16, 7, 26, 12, 18, 6, 11, 5, 10, 9}
#endif
extern const uint8_t coffer_rt_lowest_table[1U << COFFER_RT_WORD_LOG2];
// How many bits a byte has, leading zeros left out.
extern const uint8_t coffer_rt_bits_table[256];
#define RT_DE_BRUIJN ((rt_word)(sizeof(rt_word) == 8U ? 0x03F79D71B4CB0A89ULL : 0x077CB531ULL))

static inline unsigned rt_lowest(rt_word x) {
  const rt_word bit = x & ((rt_word)0 - x);
  const unsigned shift = (1U << COFFER_RT_WORD_LOG2) - COFFER_RT_WORD_LOG2;
  return coffer_rt_lowest_table[(rt_word)(bit * RT_DE_BRUIJN) >> shift];
}

static inline unsigned rt_bits_of_half(uint32_t x) {
  unsigned bits = 0;
  if (x < 0x10000U) {
    bits = x < 0x100U ? coffer_rt_bits_table[x] : coffer_rt_bits_table[x >> 8U] + 8U;
  } else {
    bits = x < 0x1000000U ? coffer_rt_bits_table[x >> 16U] + 16U : coffer_rt_bits_table[x >> 24U] + 24U;
  }
  return bits;
}

// How many bits x has, leading zeros left out.
static inline unsigned rt_bits(size_t x) {
#if UINTPTR_MAX > 0xFFFFFFFFU
  if ((x >> 32U) != 0U) {
    return rt_bits_of_half((uint32_t)(x >> 32U)) + 32U;
  }
#endif
  return rt_bits_of_half((uint32_t)x);
}

// The index of the highest bit of x, which is not 0.
static inline unsigned rt_highest(size_t x) { return rt_bits(x) - 1U; }

#endif

// The bits whose index is a multiple of 2^order.
#define RT_ALIGNED(order) ((rt_word)(RT_FULL / ((((rt_word)1 << ((1U << (order)) - 1U)) << 1U) - 1U)))

extern const rt_word coffer_rt_aligned[RT_RADIX_LOG2 + 1U];

// A bit for each aligned run of 2^order ones: the index of its first unit.
static inline rt_word rt_runs(rt_word free_units, unsigned order) {
  rt_word runs = free_units;
  if (order >= 1U) {
    runs &= runs >> 1U;
  }
  if (order >= 2U) {
    runs &= runs >> 2U;
  }
#if COFFER_RT_RADIX_LOG2 >= 3
  if (order >= 3U) {
    runs &= runs >> 4U;
  }
#endif
#if COFFER_RT_RADIX_LOG2 >= 4
  if (order >= 4U) {
    runs &= runs >> 8U;
  }
#endif
#if COFFER_RT_RADIX_LOG2 >= 5
  if (order >= 5U) {
    runs &= runs >> 16U;
  }
#endif
#if COFFER_RT_RADIX_LOG2 >= 6
  if (order >= 6U) {
    runs &= runs >> 32U;
  }
#endif
  return runs & coffer_rt_aligned[order];
}

// The order of the largest aligned run; free_units is not 0. Runs that are not aligned are cleared only where a step
// looks, so a step costs a shift and two ands.
static inline unsigned rt_largest_run(rt_word free_units) {
  unsigned order = 0;
  rt_word runs = free_units & (free_units >> 1U) & RT_ALIGNED(1);
  if (runs != 0U) {
    order = 1;
    runs &= (runs >> 2U) & RT_ALIGNED(2);
#if COFFER_RT_RADIX_LOG2 >= 3
    if (runs != 0U) {
      order = 2;
      runs &= (runs >> 4U) & RT_ALIGNED(3);
    }
#endif
#if COFFER_RT_RADIX_LOG2 >= 4
    if (runs != 0U) {
      order = 3;
      runs &= (runs >> 8U) & RT_ALIGNED(4);
    }
#endif
#if COFFER_RT_RADIX_LOG2 >= 5
    if (runs != 0U) {
      order = 4;
      runs &= (runs >> 16U) & RT_ALIGNED(5);
    }
#endif
#if COFFER_RT_RADIX_LOG2 >= 6
    if (runs != 0U) {
      order = 5;
      runs &= (runs >> 32U) & RT_ALIGNED(6);
    }
#endif
    if (runs != 0U) {
      order = RT_RADIX_LOG2;
    }
  }
  return order;
}

#endif
