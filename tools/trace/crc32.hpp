// CRC-32 as zlib computes it, eight bytes at a time.
#pragma once

#include <array>
#include <cstddef>

#include "trace/format.hpp"

namespace coffer::trace {

using CrcTables = std::array<std::array<u32, 256>, 8>;

constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (u32 i = 0; i < 256; ++i) {
    u32 value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320u : 0);
    tables[0][i] = value;
  }
  for (u32 i = 0; i < 256; ++i) {
    for (u32 t = 1; t < 8; ++t) tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 255];
  }
  return tables;
}

inline constexpr CrcTables kCrcTables = make_crc_tables();

// Goes on from `crc`, that of what came before (0 at first).
inline u32 crc32(u32 crc, const void* data, std::size_t length) {
  const u8* at = static_cast<const u8*>(data);
  crc = ~crc;
  for (; length >= 8; length -= 8, at += 8) {
    u64 word;
    __builtin_memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (u32 i = 0; i < 8; ++i) crc ^= kCrcTables[7 - i][word >> (8 * i) & 255];
  }
  for (; length > 0; --length, ++at) crc = (crc >> 8) ^ kCrcTables[0][(crc ^ *at) & 255];
  return ~crc;
}

}  // namespace coffer::trace
