// SPDX-License-Identifier: MIT
// Size classes and real spans (section 3.1).
//
// There are 16 classes from 16 to 256 bytes in steps of 16, then one for each power of two up to 1 MiB: 28 in all. The
// paper says 29, but its rule gives no further one. Class 0, which the table holds for requests of no class, would be
// the 29th. Class 0 here has no blocks.
//
// The paper names nine sizes of real spans and gives only the smallest: section 3.2 says 16 KiB, section 7 says 32 KiB
// three times. We take 32 KiB, so that 64-byte and 256-byte blocks match section 7: a span with a header of 256 bytes
// then has the 127 blocks of 256 bytes of section 7.7.2. The other eight sizes are ours. All are above
// MADVISE_THRESHOLD, as section 3.3 wants. None is larger than the smallest virtual span without its last page: memory
// behind the real span can fault.
#pragma once

#include "base/base.hpp"
#include "base/bits.hpp"

namespace coffer::scalloc {

inline constexpr u32 kClasses = 29;  // class 0 included
inline constexpr u32 kSmallClasses = 16;
inline constexpr usize kStep = 16;
inline constexpr usize kLargestStepped = kSmallClasses * kStep;
inline constexpr usize kLargestBlock = usize{1} << 20;  // over this: mmap
inline constexpr usize kHeaderBytes = 256;              // before the first block of a span (figure 4)
inline constexpr usize kLeastVirtualSpan = usize{2} << 20;
inline constexpr usize kLargestVirtualSpan = usize{128} << 20;

inline constexpr u32 kRealSpanSizes = 9;
inline constexpr usize kRealSpanKiB[kRealSpanSizes] = {32, 64, 128, 256, 512, 1024, 1028, 1540, 2044};

// The real-span size of each class over 256 bytes: 512, 1 Ki, 2 Ki ... 1 Mi.
inline constexpr u8 kLargeRealSpan[] = {1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 7, 6};
static_assert(sizeof kLargeRealSpan == kClasses - 1 - kSmallClasses);

// The class of a request of up to kLargestBlock bytes; 0 bytes are served as 1.
constexpr u32 class_of(usize size) {
  if (size <= kLargestStepped) return size == 0 ? 1 : static_cast<u32>((size + kStep - 1) / kStep);
  return kSmallClasses + 1 + ceil_log2(size) - 9;
}

constexpr usize block_bytes(u32 size_class) {
  if (size_class <= kSmallClasses) return size_class * kStep;
  return usize{512} << (size_class - kSmallClasses - 1);
}

constexpr u32 real_span_index(u32 size_class) {
  return size_class <= kSmallClasses ? 0 : kLargeRealSpan[size_class - kSmallClasses - 1];
}

constexpr usize real_span_bytes(u32 index) { return kRealSpanKiB[index] * 1024; }

constexpr u32 blocks_of(u32 size_class) {
  return static_cast<u32>((real_span_bytes(real_span_index(size_class)) - kHeaderBytes) / block_bytes(size_class));
}

// u of section 4: the part of a real span that is blocks.
constexpr usize payload_bytes(u32 size_class) { return blocks_of(size_class) * block_bytes(size_class); }

static_assert(class_of(0) == 1 && class_of(16) == 1 && class_of(17) == 2 && class_of(256) == 16);
static_assert(class_of(257) == 17 && class_of(512) == 17 && class_of(513) == 18);
static_assert(class_of(kLargestBlock) == kClasses - 1 && block_bytes(kClasses - 1) == kLargestBlock);
static_assert(blocks_of(class_of(64)) == 508 && blocks_of(class_of(256)) == 127);
static_assert([] {
  bool used[kRealSpanSizes] = {};
  for (u32 c = 1; c < kClasses; ++c) {
    if (class_of(block_bytes(c)) != c || blocks_of(c) < 1 || blocks_of(c) > 0xffff) return false;
    used[real_span_index(c)] = true;
  }
  for (u32 i = 0; i < kRealSpanSizes; ++i) {
    if (!used[i] || real_span_bytes(i) % 4096 != 0 || real_span_bytes(i) >= kLeastVirtualSpan) return false;
    if (i > 0 && real_span_bytes(i) <= real_span_bytes(i - 1)) return false;
  }
  return true;
}());

}  // namespace coffer::scalloc
