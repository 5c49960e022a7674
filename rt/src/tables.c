// SPDX-License-Identifier: MIT
// Constant tables of bits.h.
#include "bits.h"

const rt_word coffer_rt_aligned[RT_RADIX_LOG2 + 1U] = {
    RT_FULL,       RT_ALIGNED(1), RT_ALIGNED(2),
#if COFFER_RT_RADIX_LOG2 >= 3
    RT_ALIGNED(3),
#endif
#if COFFER_RT_RADIX_LOG2 >= 4
    RT_ALIGNED(4),
#endif
#if COFFER_RT_RADIX_LOG2 >= 5
    RT_ALIGNED(5),
#endif
#if COFFER_RT_RADIX_LOG2 >= 6
    RT_ALIGNED(6),
#endif
};

#if !RT_HAS_SCAN
const uint8_t coffer_rt_lowest_table[1U << COFFER_RT_WORD_LOG2] = RT_INDEX_TABLE;

const uint8_t coffer_rt_bits_table[256] = {
    0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
    8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
    8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
    8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8,
};
#endif
