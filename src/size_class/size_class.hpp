// SPDX-License-Identifier: MIT
// Size classes: which block size serves a request. Steps of 16 up to 128 bytes, then eight to a doubling (at most
// 12.5 % apart) up to 64 KiB: 80 classes by size. After them come twins of some of these, for requests that want more
// than a cache line's alignment (placement.hpp). Everything here is computed and asserted at compile time.
#pragma once

#include <array>

#include "base/bits.hpp"
#include "base/hardening.hpp"
#include "base/words.hpp"

namespace coffer {

using ClassIndex = u32;

inline constexpr u32 kSizeClasses = 80;
inline constexpr usize kLargestSmall = 64 * 1024;  // the largest request that a class serves
inline constexpr usize kQuantum = 16;              // alignment of every block

// Twins: steps of 128 up to 1 KiB, then four to a doubling. All powers of two are among them, all multiples of a power
// up to eight times it, and so what programs ask for with an alignment.
inline constexpr u32 kTwins = 8 + 4 * 6;
inline constexpr u32 kShapes = kSizeClasses + kTwins;
// In the hardened build each class by size has another of the same shape behind them, for blocks of pointers.
inline constexpr u32 kClasses = kShapes + (kHardening.parts ? kSizeClasses : 0);
constexpr ClassIndex shape_class(ClassIndex index) {
  return kHardening.parts && index >= kShapes ? index - kShapes : index;
}
constexpr ClassIndex pointer_class(ClassIndex index) { return index + kShapes; }
constexpr bool is_twin(ClassIndex index) { return index >= kSizeClasses && (!kHardening.parts || index < kShapes); }

// `steps` classes of `step` bytes, then `each` to a doubling.
constexpr usize ladder(u32 index, usize step, u32 steps, u32 each) {
  if (index < steps) return step * (index + 1);
  const usize base = (step * steps) << ((index - steps) / each);
  return base + (base / each) * ((index - steps) % each + 1);
}

// The first of these with so many bytes.
constexpr u32 rung(usize bytes, usize step, u32 steps, u32 each) {
  if (bytes <= step * steps) return bytes == 0 ? 0 : static_cast<u32>((bytes - 1) / step);
  const u32 doubling = highest_bit((bytes - 1) / (step * steps));
  const usize base = (step * steps) << doubling;
  return steps + doubling * each + static_cast<u32>((bytes - base - 1) / (base / each));
}

// The largest request that a class serves. Its blocks may be longer by a line (ClassLayout::block_bytes).
constexpr usize class_bytes(ClassIndex index) {
  index = shape_class(index);
  return index < kSizeClasses ? ladder(index, 16, 8, 8) : ladder(index - kSizeClasses, 128, 8, 4);
}

// The class of a request, and the first twin that serves one.
constexpr ClassIndex compute_class(usize size) { return rung(size, 16, 8, 8); }
constexpr ClassIndex compute_twin(usize size) { return kSizeClasses + rung(size, 128, 8, 4); }

// Class by size in steps of 16: one byte load on the fast path instead of a dozen instructions. The table is read-only
// and shared by all processes; a program touches the lines of the sizes it uses. It has the word of a heap's record
// that is the class's list, which is the class where the lists come first (exchange/record.hpp).
inline constexpr u32 kListsAt = kPairs ? 2 : 0;
alignas(kHotAlignment) inline constexpr std::array<u8, kLargestSmall / kQuantum + 1> kWordBySize = [] {
  std::array<u8, kLargestSmall / kQuantum + 1> table{};
  for (usize i = 0; i < table.size(); ++i) table[i] = static_cast<u8>(compute_class(i * kQuantum) + kListsAt);
  return table;
}();

// size <= kLargestSmall.
COFFER_INLINE constexpr ClassIndex class_of(usize size) {
  return kWordBySize[(size + kQuantum - 1) / kQuantum] - kListsAt;
}
COFFER_INLINE usize word_of(usize size) { return (*page_of(kWordBySize))[(size + kQuantum - 1) / kQuantum]; }
static_assert(kClasses + kListsAt <= 256);

static_assert(class_bytes(kSizeClasses - 1) == kLargestSmall && compute_class(kLargestSmall) == kSizeClasses - 1);
static_assert(class_bytes(kClasses - 1) == kLargestSmall && class_bytes(kSizeClasses) == 128);
static_assert([] {
  for (ClassIndex c = 0; c < kSizeClasses; ++c) {
    const usize bytes = class_bytes(c);
    if (bytes % kQuantum != 0 || compute_class(bytes) != c) return false;
    if (c > 0 && compute_class(class_bytes(c - 1) + 1) != c) return false;
    // At most 12.5 % above the class before, from 128 bytes on.
    if (c >= 8 && (bytes - class_bytes(c - 1)) * 8 > class_bytes(c - 1)) return false;
  }
  return true;
}());

}  // namespace coffer
