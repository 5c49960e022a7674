// SPDX-License-Identifier: MIT
#include "observe/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace coffer {
namespace {

TEST(Sampling, LogarithmAndExponential) {
  for (double x = 0x1p-53; x < 1e6; x *= 1.37) EXPECT_NEAR(log_of(x), std::log(x), 1e-9 * (1 + std::abs(std::log(x))));
  for (double x = 0; x < 690; x += 0.37) EXPECT_NEAR(exp_of_minus(x) / std::exp(-x), 1, 1e-9) << x;
  EXPECT_EQ(exp_of_minus(1e9), 0);
}

TEST(Sampling, ProbabilityOfABlock) {
  for (const usize mean : {usize{1}, usize{16}, usize{1} << 19, usize{1} << 40}) {
    for (usize bytes = 1; bytes < usize{1} << 42; bytes = bytes * 3 + 1) {
      const double exact = -std::expm1(-static_cast<double>(bytes) / static_cast<double>(mean));
      EXPECT_NEAR(sampling_probability(bytes, mean) / exact, 1, 1e-8) << bytes << " of " << mean;
      EXPECT_GE(sampling_weight(bytes, mean), 1);
    }
  }
}

// Exponentially distributed: mean and spread are the same, and e^-2 of all are beyond twice the mean.
TEST(Sampling, BytesBetweenSamples) {
  constexpr usize kMean = 512 * 1024, kDraws = 200'000;
  double sum = 0, squares = 0;
  u32 beyond = 0;
  for (u64 i = 0; i < kDraws; ++i) {
    const double bytes = static_cast<double>(bytes_until_sample(mix_bits(7, i), kMean));
    sum += bytes;
    squares += bytes * bytes;
    beyond += bytes > 2 * kMean ? 1 : 0;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean / kMean, 1, 0.01);
  EXPECT_NEAR(std::sqrt(squares / kDraws - mean * mean) / kMean, 1, 0.01);
  EXPECT_NEAR(beyond / double{kDraws}, std::exp(-2), 0.005);
  EXPECT_LT(bytes_until_sample(~u64{0}, kMean), 1u);
  EXPECT_NEAR(static_cast<double>(bytes_until_sample(0, kMean)), 53 * std::log(2) * kMean, kMean * 1e-3) << "the most";
}

}  // namespace
}  // namespace coffer
