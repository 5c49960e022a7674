// SPDX-License-Identifier: MIT
#include "observe/sampling.hpp"

namespace coffer {

namespace {

constexpr double kLogTwo = 0.6931471805599453;

struct Parts {
  double fraction;  // from 1 to 2
  i32 exponent;
};

Parts split(double x) {
  u64 bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const i32 exponent = static_cast<i32>(bits >> 52 & 0x7ff) - 1023;
  bits = (bits & ~(u64{0x7ff} << 52)) | u64{1023} << 52;
  double fraction;
  __builtin_memcpy(&fraction, &bits, sizeof fraction);
  return {fraction, exponent};
}

}  // namespace

double log_of(double x) {
  const Parts parts = split(x);
  // log(f) = 2 (s + s^3 / 3 + s^5 / 5 ...), s = (f - 1) / (f + 1), at most 1/3.
  const double s = (parts.fraction - 1) / (parts.fraction + 1);
  const double square = s * s;
  double sum = 0;
  for (int k = 19; k > 0; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * s * sum + parts.exponent * kLogTwo;
}

double exp_of_minus(double x) {
  if (x > 700) return 0;
  // e^-x = 2^-n e^-r, with r below log 2.
  const u32 n = static_cast<u32>(x / kLogTwo);
  const double r = x - n * kLogTwo;
  double sum = 1;
  for (int k = 16; k > 0; --k) sum = 1 - sum * r / k;
  const u64 bits = u64{1023 - n} << 52;
  double power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return sum * power;
}

double sampling_probability(usize bytes, usize mean) {
  const double x = static_cast<double>(bytes) / static_cast<double>(mean);
  // Small x: 1 - e^-x would lose its digits.
  if (x < 0.01) return x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4)));
  return 1 - exp_of_minus(x);
}

u64 bytes_until_sample(u64 random, usize mean) {
  // From 2^-53 to 1, never 0.
  const double uniform = static_cast<double>((random >> 11) + 1) * 0x1p-53;
  return static_cast<u64>(-log_of(uniform) * static_cast<double>(mean));
}

u64 mix_bits(u64 seed, u64 number) {
  u64 bits = seed + (number + 1) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

}  // namespace coffer
