// SPDX-License-Identifier: MIT
// Size classes a factor b apart (paper 1, section 3). Block sizes are multiples of 16, as C's alignment wants, so
// neighbours of small classes are farther apart than b: 16 and 32, 32 and 48. The factor holds from where 16 is less
// than a step of b would be; holds_from() says where.
#pragma once

#include "base/base.hpp"
#include "papers/common/word.hpp"

namespace coffer::papers::hoard {

inline constexpr u32 kMostClasses = 128;
inline constexpr usize kLargestSuperblock = usize{1} << 20;

class SizeClasses {
 public:
  // Classes for requests of up to `largest` bytes, where `word` bytes of each block are not the request's (0 or kWord).
  // factor: b in hundredths.
  void build(usize largest, usize word, u32 factor);

  u32 count() const { return count_; }
  // The class for a request of at most largest() bytes.
  COFFER_INLINE u32 of(usize request) const {
    return by_quantum_[(request + word_ + kBlockAlignment - 1) / kBlockAlignment];
  }
  // Bytes from one block to the next.
  u32 stride(u32 size_class) const { return stride_[size_class]; }
  // Bytes of a block that a request may use.
  usize usable(u32 size_class) const { return stride_[size_class] - word_; }
  usize largest() const { return largest_; }
  // Every request of more bytes than this gets at most b times what it asked for.
  usize holds_from() const { return holds_from_; }

 private:
  usize next_stride(usize stride, u32 factor) const;

  usize word_ = 0;
  usize largest_ = 0;
  usize holds_from_ = 0;
  u32 count_ = 0;
  u32 stride_[kMostClasses] = {};
  // By bytes of a block in units of 16. For the default S, the first 250 or so are used, and no more is touched.
  u8 by_quantum_[kLargestSuperblock / 2 / kBlockAlignment + 1] = {};
};

}  // namespace coffer::papers::hoard
