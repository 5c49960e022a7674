// SPDX-License-Identifier: MIT
// The arithmetic of sampling by bytes: as if each allocated byte were chosen with probability 1 / mean, independently
// of all others (a Poisson process). A block is sampled if any of its bytes is chosen.
#pragma once

#include "base/base.hpp"

namespace coffer {

// Natural logarithm, for x > 0 and normal; e to the power -x for x >= 0. To about 1e-9.
double log_of(double x);
double exp_of_minus(double x);

// Probability that a block of so many bytes is sampled, and what one sampled block therefore stands for.
double sampling_probability(usize bytes, usize mean);
inline double sampling_weight(usize bytes, usize mean) { return 1 / sampling_probability(bytes, mean); }

// Bytes until the next chosen one: exponentially distributed, from 64 random bits.
u64 bytes_until_sample(u64 random, usize mean);

// Random bits from a seed and a number that is not used twice.
u64 mix_bits(u64 seed, u64 number);

}  // namespace coffer
