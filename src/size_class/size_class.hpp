// Size classes: which block size serves a request. Steps of 16 up to 128 bytes, then eight to a doubling (at most
// 12.5 % apart) up to 32 KiB: 72 classes. Everything here is computed and asserted at compile time.
#pragma once

#include <array>

#include "base/bits.hpp"

namespace coffer {

using ClassIndex = u32;

inline constexpr u32 kClasses = 72;
inline constexpr usize kLargestSmall = 32 * 1024;  // the largest block size of a class
inline constexpr usize kQuantum = 16;              // alignment of every block

constexpr usize class_bytes(ClassIndex index) {
  if (index < 8) return usize{16} * (index + 1);
  const u32 doubling = (index - 8) / 8;
  const usize base = usize{128} << doubling;
  return base + (base / 8) * ((index - 8) % 8 + 1);
}

constexpr ClassIndex compute_class(usize size) {
  if (size <= 128) return size == 0 ? 0 : static_cast<ClassIndex>((size - 1) / 16);
  const u32 doubling = highest_bit(size - 1) - 7;  // size in (128 << doubling, 256 << doubling]
  const usize base = usize{128} << doubling;
  return 8 + doubling * 8 + static_cast<ClassIndex>((size - base - 1) / (base / 8));
}

// Class by size in steps of 16: one byte load on the fast path instead of a dozen instructions. The table is read-only
// and shared by all processes; a program touches the lines of the sizes it uses.
inline constexpr std::array<u8, kLargestSmall / kQuantum + 1> kClassBySize = [] {
  std::array<u8, kLargestSmall / kQuantum + 1> table{};
  for (usize i = 0; i < table.size(); ++i) table[i] = static_cast<u8>(compute_class(i * kQuantum));
  return table;
}();

// size <= kLargestSmall.
COFFER_INLINE ClassIndex class_of(usize size) { return kClassBySize[(size + kQuantum - 1) / kQuantum]; }

static_assert(class_bytes(kClasses - 1) == kLargestSmall && compute_class(kLargestSmall) == kClasses - 1);
static_assert([] {
  for (ClassIndex c = 0; c < kClasses; ++c) {
    const usize bytes = class_bytes(c);
    if (bytes % kQuantum != 0 || compute_class(bytes) != c) return false;
    if (c > 0 && compute_class(class_bytes(c - 1) + 1) != c) return false;
    // At most 12.5 % above the class before, from 128 bytes on.
    if (c >= 8 && (bytes - class_bytes(c - 1)) * 8 > class_bytes(c - 1)) return false;
  }
  return true;
}());

}  // namespace coffer
