// SPDX-License-Identifier: MIT
#include "papers/hoard/sizes.hpp"

#include "base/bits.hpp"

namespace coffer::papers::hoard {

// The smallest request that `stride` cannot serve is one byte more than it has: of all requests of the next class, this
// one wastes most. So the next class serves at most b times that.
usize SizeClasses::next_stride(usize stride, u32 factor) const {
  const usize request = stride - word_ + 1;
  const usize wanted = round_down(request * factor / 100 + word_, kBlockAlignment);
  return wanted > stride ? wanted : stride + kBlockAlignment;
}

void SizeClasses::build(usize largest, usize word, u32 factor) {
  word_ = word;
  count_ = 0;
  holds_from_ = 0;
  const usize last = round_down(largest + word, kBlockAlignment);
  largest_ = last - word;
  usize quantum = 0;
  usize stride = kBlockAlignment;
  for (;; stride = next_stride(stride, factor)) {
    // What is left of the table goes to the last class.
    if (stride > last || count_ == kMostClasses - 1) stride = last;
    const usize smallest = count_ > 0 ? stride_[count_ - 1] - word + 1 : 1;
    if ((stride - word) * 100 > smallest * factor) holds_from_ = stride - word;
    for (; quantum <= stride / kBlockAlignment; ++quantum) by_quantum_[quantum] = static_cast<u8>(count_);
    stride_[count_++] = static_cast<u32>(stride);
    if (stride == last) return;
  }
}

}  // namespace coffer::papers::hoard
