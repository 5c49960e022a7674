// SPDX-License-Identifier: MIT
// What fast paths are told of machines whose loads and stores are instructions of their own (docs/design/speed-log.md,
// "Other machines"). x86-64 works on cells where they lie (atomic.hpp), and wants none of it.
#pragma once

#include "base/atomic.hpp"

namespace coffer {

// aarch64 loads and stores two neighbouring words by one instruction, and comes to the start of a page of 4 KiB by one,
// where an address in it takes two. Compilers do not find such pairs of atomics.
#if defined(__aarch64__) && defined(COFFER_CELLS_ARE_WORDS)
#define COFFER_PAIRS 1
#else
#define COFFER_PAIRS 0
#endif
inline constexpr bool kPairs = COFFER_PAIRS != 0;

// aarch64 and RISC-V come to a variable of the thread by an offset, which they load from a table of the library. It is
// kept beside what the fast paths load anyway.
#if (defined(__aarch64__) || defined(__riscv)) && defined(COFFER_CELLS_ARE_WORDS)
inline constexpr bool kKeepsOffset = true;
#else
inline constexpr bool kKeepsOffset = false;
#endif

// Of variables whose address fast paths ask page_of for.
inline constexpr usize kHotAlignment = kPairs ? 4096 : 1;
template <class T>
COFFER_INLINE T* page_of(T& variable) {
#if COFFER_PAIRS
  T* page;
  __asm__("adrp %0, %1" : "=r"(page) : "S"(&variable));
  return page;
#else
  return &variable;
#endif
}

// Two cells side by side. Each is read whole, as by relaxed, and no more is promised: the machine may read the second
// one first. load_words_at_once: by one instruction in any case, which costs a register.
struct Words {
  u64 first = 0, second = 0;
};
__extension__ typedef unsigned __int128 BothWords __attribute__((may_alias, aligned(8)));
COFFER_INLINE Words words_of(BothWords both) { return {static_cast<u64>(both), static_cast<u64>(both >> 64)}; }
COFFER_INLINE Words load_words(const void* place) { return words_of(*static_cast<const BothWords*>(place)); }
COFFER_INLINE Words load_words_at_once(const void* place) {
  return words_of(*static_cast<const volatile BothWords*>(place));
}

}  // namespace coffer
