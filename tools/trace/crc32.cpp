// SPDX-License-Identifier: MIT
#include "trace/crc32.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace coffer::trace {

namespace {

using CrcTables = std::array<std::array<u32, 256>, 8>;
constexpr u32 kPolynomial = 0xEDB88320u;  // bits in reverse, as in all of this

constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (u32 i = 0; i < 256; ++i) {
    u32 value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    tables[0][i] = value;
  }
  for (u32 i = 0; i < 256; ++i) {
    for (u32 t = 1; t < 8; ++t) tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 255];
  }
  return tables;
}

constexpr CrcTables kTables = make_crc_tables();

// Eight bytes at a time. Without the inversions at the beginning and the end, as all in here.
u32 by_table(u32 crc, const u8* at, std::size_t length) {
  for (; length >= 8; length -= 8, at += 8) {
    u64 word;
    __builtin_memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (u32 i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> (8 * i) & 255];
  }
  for (; length > 0; --length, ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 255];
  return crc;
}

#if defined(__x86_64__)
// x to the power of n modulo the polynomial; the product with it, without carries, moves bits n places on. One bit up,
// because a product of two numbers in reverse order comes out one bit too low.
constexpr u64 power(u32 n) {
  u32 value = 0x80000000u;  // x^0
  for (u32 i = 0; i < n; ++i) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
  return u64{value} << 1;
}

// What lies in 16 bytes, moved on by so many bits as the two powers say, and what lies there.
__attribute__((target("pclmul,sse4.1"))) __m128i fold(__m128i value, __m128i powers, __m128i there) {
  const __m128i low = _mm_clmulepi64_si128(value, powers, 0x00), high = _mm_clmulepi64_si128(value, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), there);
}

__attribute__((target("pclmul,sse4.1"))) __m128i sixteen(const u8* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

// 64 bytes at a time, at least 64, a multiple of 16: each 16 bytes are moved to where later ones are, until there are
// no more than 16, which have the same remainder as all.
__attribute__((target("pclmul,sse4.1"))) u32 by_folding(u32 crc, const u8* at, std::size_t length) {
  const __m128i by_64 =
      _mm_set_epi64x(static_cast<long long>(power(512 - 32)), static_cast<long long>(power(512 + 32)));
  const __m128i by_16 =
      _mm_set_epi64x(static_cast<long long>(power(128 - 32)), static_cast<long long>(power(128 + 32)));
  __m128i parts[4];
  for (int i = 0; i < 4; ++i) parts[i] = sixteen(at + 16 * i);
  parts[0] = _mm_xor_si128(parts[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  for (at += 64, length -= 64; length >= 64; at += 64, length -= 64) {
    for (int i = 0; i < 4; ++i) parts[i] = fold(parts[i], by_64, sixteen(at + 16 * i));
  }
  __m128i rest = parts[0];
  for (int i = 1; i < 4; ++i) rest = fold(rest, by_16, parts[i]);
  for (; length >= 16; at += 16, length -= 16) rest = fold(rest, by_16, sixteen(at));
  u8 bytes[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), rest);
  return by_table(0, bytes, sizeof bytes);
}

bool can_fold() { return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0; }
#else
bool can_fold() { return false; }
u32 by_folding(u32 crc, const u8*, std::size_t) { return crc; }
#endif

}  // namespace

u32 crc32_by_table(u32 crc, const void* data, std::size_t length) {
  return ~by_table(~crc, static_cast<const u8*>(data), length);
}

u32 crc32(u32 crc, const void* data, std::size_t length) {
  static const bool folds = can_fold();
  const u8* at = static_cast<const u8*>(data);
  crc = ~crc;
  if (length >= 64 && folds) {
    const std::size_t whole = length & ~std::size_t{15};
    crc = by_folding(crc, at, whole);
    at += whole;
    length -= whole;
  }
  return ~by_table(crc, at, length);
}

}  // namespace coffer::trace
