// SPDX-License-Identifier: MIT
// Read-modify-writes of one byte or two where the processor has them for words only (RISC-V, whose compilers before GCC
// 13 would call libatomic): on the aligned word of 32 bits that they are in. The neighbours keep what others store
// there meanwhile, for then the exchange of the word fails. Little endian.
#pragma once

#include <atomic>
#include <type_traits>

#include "base/base.hpp"

namespace coffer {

#if defined(__riscv)
inline constexpr bool kBytesInWords = true;
#else
inline constexpr bool kBytesInWords = false;
#endif

using WordOfBytes __attribute__((may_alias)) = u32;

template <class T>
class ByteInWord {
 public:
  explicit ByteInWord(void* byte)
      : word_(reinterpret_cast<WordOfBytes*>(reinterpret_cast<uptr>(byte) & ~uptr{3})),
        shift_(static_cast<u32>(reinterpret_cast<uptr>(byte) & 3) * 8) {
    // The word may reach beyond the variable, which the compiler would warn of; it reaches no other page.
    __asm__("" : "+r"(word_));
  }

  // As std::atomic's compare_exchange_weak: may fail for no reason.
  bool compare_exchange(T& expected, T desired, std::memory_order success, std::memory_order failure) {
    u32 word = __atomic_load_n(word_, static_cast<int>(failure));
    const T found = byte_of(word);
    if (found != expected) {
      expected = found;
      return false;
    }
    const bool done = __atomic_compare_exchange_n(word_, &word, with(word, desired), true, static_cast<int>(success),
                                                  static_cast<int>(failure));
    if (!done) expected = byte_of(word);
    return done;
  }

  // Replaces the byte by what `next` makes of it; returns what was there.
  template <class Next>
  T update(std::memory_order order, Next&& next) {
    u32 word = __atomic_load_n(word_, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word_, &word, with(word, next(byte_of(word))), true, static_cast<int>(order),
                                        __ATOMIC_RELAXED)) {
    }
    return byte_of(word);
  }

 private:
  using Bits = std::conditional_t<sizeof(T) == 1, u8, u16>;
  static_assert(sizeof(T) == sizeof(Bits));

  T byte_of(u32 word) const { return static_cast<T>(static_cast<Bits>(word >> shift_)); }
  u32 with(u32 word, T byte) const {
    return (word & ~(u32{static_cast<Bits>(~Bits{0})} << shift_)) | u32{static_cast<Bits>(byte)} << shift_;
  }

  WordOfBytes* word_;
  u32 shift_;
};

}  // namespace coffer
