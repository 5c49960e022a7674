// In place of src/base/atomic.hpp: cells whose operations are steps that a scheduler may put in any order
// (interleavings/explorer.hpp). Threads run one at a time here, so the cells need no atomics of their own; what they
// show is every sequentially consistent order, not what weaker orders would allow besides.
#pragma once

#include <atomic>

#include "base/base.hpp"
#include "interleavings/scheduler.hpp"

namespace coffer {

inline constexpr std::memory_order relaxed = std::memory_order_relaxed;
inline constexpr std::memory_order acquire = std::memory_order_acquire;
inline constexpr std::memory_order release = std::memory_order_release;
inline constexpr std::memory_order acq_rel = std::memory_order_acq_rel;
inline constexpr std::memory_order seq_cst = std::memory_order_seq_cst;

template <class T>
class Atomic {
 public:
  constexpr Atomic() = default;
  constexpr explicit Atomic(T value) : value_(value) {}

  T load(std::memory_order) const { return cell(); }
  bool is(T value) const { return cell() == value; }
  bool is_above(T value) const { return value < cell(); }
  void store(T value, std::memory_order) { cell() = value; }
  T exchange(T value, std::memory_order) {
    const T before = cell();
    value_ = value;
    return before;
  }
  bool compare_exchange(T& expected, T desired, std::memory_order, std::memory_order) {
    if (cell() == expected) {
      value_ = desired;
      return true;
    }
    expected = value_;
    return false;
  }
  T fetch_or(T bits, std::memory_order order) { return exchange(static_cast<T>(cell() | bits), order, 0); }
  T fetch_and(T bits, std::memory_order order) { return exchange(static_cast<T>(cell() & bits), order, 0); }
  T fetch_add(T amount, std::memory_order order) { return exchange(static_cast<T>(cell() + amount), order, 0); }
  T fetch_sub(T amount, std::memory_order order) { return exchange(static_cast<T>(cell() - amount), order, 0); }

 private:
  // The step: what follows happens at once.
  T& cell() {
    schedule::step(this);
    return value_;
  }
  const T& cell() const {
    schedule::step(this);
    return value_;
  }
  // Within the step that computed `value`.
  T exchange(T value, std::memory_order, int) {
    const T before = value_;
    value_ = value;
    return before;
  }

  T value_{};
};

// Only its owner writes it, and what others read of it is a hint or carried by a step of an Atomic.
template <class T>
class Owned {
 public:
  constexpr Owned() = default;
  constexpr explicit Owned(T value) : value_(value) {}

  T get() const { return value_; }
  void set(T value) { value_ = value; }
  bool decrement() { return --value_ == 0; }

 private:
  T value_{};
};

inline void compiler_fence() {}
inline void full_fence() {}

}  // namespace coffer
