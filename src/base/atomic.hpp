// SPDX-License-Identifier: MIT
// The two kinds of shared memory cell. All atomics and all fields that only an owner writes go through these types, so
// that another build can put a recorder or a scheduler in their place; here they are the machine's own instructions.
//
// Every call names its memory order. Next to each use a comment names the partner it pairs with.
#pragma once

#include <atomic>

#include "base/base.hpp"
#include "base/byte_atomic.hpp"

namespace coffer {

inline constexpr std::memory_order relaxed = std::memory_order_relaxed;
inline constexpr std::memory_order acquire = std::memory_order_acquire;
inline constexpr std::memory_order release = std::memory_order_release;
inline constexpr std::memory_order acq_rel = std::memory_order_acq_rel;
inline constexpr std::memory_order seq_cst = std::memory_order_seq_cst;

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && defined(__GCC_ASM_FLAG_OUTPUTS__)
#define COFFER_COMPARE_IN_MEMORY 1
#else
#define COFFER_COMPARE_IN_MEMORY 0
#endif

#if (defined(__aarch64__) || defined(__riscv)) && !defined(__SANITIZE_THREAD__)
#define COFFER_PLAIN_IF_RELAXED 1
#else
#define COFFER_PLAIN_IF_RELAXED 0
#endif
#if defined(__riscv) && !defined(__SANITIZE_THREAD__)
#define COFFER_FENCE(before, after) __asm__ volatile("fence " before "," after : : : "memory")
#define COFFER_OWN_FENCES 1
#else
#define COFFER_FENCE(before, after) static_cast<void>(0)
#define COFFER_OWN_FENCES 0
#endif

// For base/words.hpp: a cell is a word of memory here, and nothing else.
#if !defined(__SANITIZE_THREAD__)
#define COFFER_CELLS_ARE_WORDS 1
#endif

// Loads and stores of a cell. A volatile access of an aligned word is as whole as an atomic one; but GCC for aarch64
// gives the atomic one a register of its own for the address, an instruction more, and GCC before 14 makes an amoswap
// of each atomic store for RISC-V, and fences everything, devices too, where the unprivileged specification asks for
// less (its table of mappings from C++: load; fence r,rw and fence rw,w; store).
template <class T>
COFFER_INLINE T load_cell(const std::atomic<T>& cell, std::memory_order order) {
  constexpr bool kPlain = COFFER_PLAIN_IF_RELAXED, kFences = COFFER_OWN_FENCES;
  if (kPlain && (order == std::memory_order_relaxed || (kFences && order == std::memory_order_acquire))) {
    const T value = *reinterpret_cast<const volatile T*>(&cell);
    if (order == std::memory_order_acquire) COFFER_FENCE("r", "rw");
    return value;
  }
  return cell.load(order);
}
template <class T>
COFFER_INLINE void store_cell(std::atomic<T>& cell, T value, std::memory_order order) {
  constexpr bool kPlain = COFFER_PLAIN_IF_RELAXED, kFences = COFFER_OWN_FENCES;
  if (kPlain && (order == std::memory_order_relaxed || (kFences && order == std::memory_order_release))) {
    if (order == std::memory_order_release) COFFER_FENCE("rw", "w");
    *reinterpret_cast<volatile T*>(&cell) = value;
    return;
  }
  cell.store(value, order);
}

// A cell that several threads write. Zero bytes are a valid initial state: most cells live in mapped memory that no
// constructor ever ran over.
template <class T>
class Atomic {
 public:
  constexpr Atomic() = default;
  constexpr explicit Atomic(T value) : value_(value) {}

  COFFER_INLINE T load(std::memory_order order) const { return load_cell(value_, order); }

  // Relaxed comparisons with the cell, for the fast paths: one instruction on x86-64, where the compiler makes a load
  // and a compare of an atomic.
  COFFER_INLINE bool is(T value) const {
#if COFFER_COMPARE_IN_MEMORY
    if constexpr (sizeof(T) == 8) {
      bool equal;
      __asm__("cmpq %2, %1" : "=@cce"(equal) : "r"(value), "m"(value_));
      return equal;
    }
#endif
    return load_cell(value_, std::memory_order_relaxed) == value;
  }
  COFFER_INLINE bool is_above(T value) const {
#if COFFER_COMPARE_IN_MEMORY
    if constexpr (sizeof(T) == 8) {
      bool below;
      __asm__("cmpq %2, %1" : "=@ccb"(below) : "r"(value), "m"(value_));
      return below;
    }
#endif
    return value < load_cell(value_, std::memory_order_relaxed);
  }
  // value + what the cell holds, likewise. A plain read, of a cell that is written once: of an atomic one the compiler
  // makes a load and an addition, and with inline assembly it copies the value first.
  COFFER_INLINE T plus(T value) const {
#if COFFER_COMPARE_IN_MEMORY
    return value + *reinterpret_cast<const T*>(&value_);
#else
    return value + load_cell(value_, std::memory_order_relaxed);
#endif
  }
  COFFER_INLINE void store(T value, std::memory_order order) { store_cell(value_, value, order); }
  COFFER_INLINE T exchange(T value, std::memory_order order) {
    if constexpr (kInWord) return ByteInWord<T>(&value_).update(order, [&](T) { return value; });
    return value_.exchange(value, order);
  }
  // On failure `expected` holds what was found.
  COFFER_INLINE bool compare_exchange(T& expected, T desired, std::memory_order success, std::memory_order failure) {
    if constexpr (kInWord) return ByteInWord<T>(&value_).compare_exchange(expected, desired, success, failure);
    return value_.compare_exchange_weak(expected, desired, success, failure);
  }
  COFFER_INLINE T fetch_or(T bits, std::memory_order order) {
    if constexpr (kInWord) {
      return ByteInWord<T>(&value_).update(order, [&](T before) { return static_cast<T>(before | bits); });
    } else {
      return value_.fetch_or(bits, order);
    }
  }
  COFFER_INLINE T fetch_and(T bits, std::memory_order order) {
    if constexpr (kInWord) {
      return ByteInWord<T>(&value_).update(order, [&](T before) { return static_cast<T>(before & bits); });
    } else {
      return value_.fetch_and(bits, order);
    }
  }
  COFFER_INLINE T fetch_add(T amount, std::memory_order order) {
    static_assert(!kInWord, "of less than a word nothing is a sum");
    return value_.fetch_add(amount, order);
  }
  COFFER_INLINE T fetch_sub(T amount, std::memory_order order) {
    static_assert(!kInWord, "of less than a word nothing is a sum");
    return value_.fetch_sub(amount, order);
  }

 private:
  std::atomic<T> value_{};
  static constexpr bool kInWord = kBytesInWords && sizeof(T) < sizeof(WordOfBytes);
  static_assert(kInWord || std::atomic<T>::is_always_lock_free);
};

// A cell that one thread at a time writes: its owner, or whoever holds the lock or the state that stands for
// ownership. Others may look (statistics), and then see some value that was there: hence relaxed, which costs nothing.
template <class T>
class Owned {
 public:
  constexpr Owned() = default;
  constexpr explicit Owned(T value) : value_(value) {}

  COFFER_INLINE T get() const { return load_cell(value_, std::memory_order_relaxed); }
  COFFER_INLINE void set(T value) { store_cell(value_, value, std::memory_order_relaxed); }

  // Subtracts one; true when that made it zero. One instruction on x86-64, where the compiler would make three of a
  // relaxed load and store.
  COFFER_INLINE bool decrement() {
#if COFFER_COMPARE_IN_MEMORY
    if constexpr (sizeof(T) == 4) {
      bool zero;
      __asm__ volatile("decl %0" : "+m"(value_), "=@ccz"(zero));
      return zero;
    }
#endif
    const T next = get() - 1;
    set(next);
    return next == 0;
  }

 private:
  std::atomic<T> value_{};
};

// Keeps the compiler, not the processor, from moving accesses across: what a fork child or a barrier issued on this
// thread's behalf (membarrier) sees is then a prefix of the program's order.
COFFER_INLINE void compiler_fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// Orders everything before it against everything after it, for all threads.
COFFER_INLINE void full_fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

}  // namespace coffer
