// SPDX-License-Identifier: MIT
// In place of src/base/atomic.hpp, for builds that put this folder before src/: cells that report every operation, with
// the place in the source that it stands at, before it is done. Who listens is the build's choice, by the record.hpp
// that it puts beside: a scheduler that tries all orders (test/unit/interleavings), or one that counts what a machine
// of many cores would pay (bench/simulation).
//
// One thread runs at a time in both, so the cells need no atomics of their own. A listener that takes all stores at
// once (at_once.hpp) shows every sequentially consistent order, one that delays them (test/trial) what weaker ones
// allow besides.
#pragma once

#include <atomic>

#include "base/base.hpp"

namespace coffer::recorded {

enum class Kind : u8 { load, store, change, owned_load, owned_store };

// Where in the source an operation stands.
struct Place {
  const char* file;
  const char* function;
  u32 line;
  static constexpr Place here(const char* file = __builtin_FILE(), const char* function = __builtin_FUNCTION(),
                              u32 line = __builtin_LINE()) {
    return {file, function, line};
  }
};

}  // namespace coffer::recorded

// The listener: access(cell, bytes, kind, place) before each operation, failed(cell, place) after a compare_exchange
// that changed nothing, fence(), and pause() in spin loops; seen(cell, order), what the thread reads there, write(cell,
// value, order), and settle(cell, order) before a cell is changed in place. COFFER_UNRECORDED: compilers that report
// accesses by themselves leave out the functions so marked.
#include "record.hpp"

namespace coffer {

using recorded::Kind;
using recorded::Place;

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

  COFFER_UNRECORDED T load(std::memory_order order, Place at = Place::here()) const {
    recorded::access(this, sizeof(T), Kind::load, at);
    return recorded::seen(value_, order);
  }
  COFFER_UNRECORDED bool is(T value, Place at = Place::here()) const { return load(relaxed, at) == value; }
  COFFER_UNRECORDED bool is_above(T value, Place at = Place::here()) const { return value < load(relaxed, at); }
  COFFER_UNRECORDED T plus(T value, Place at = Place::here()) const { return value + load(relaxed, at); }
  COFFER_UNRECORDED void store(T value, std::memory_order order, Place at = Place::here()) {
    recorded::access(this, sizeof(T), Kind::store, at);
    recorded::write(value_, value, order);
  }
  COFFER_UNRECORDED T exchange(T value, std::memory_order order, Place at = Place::here()) {
    change(order, at);
    return replace(value);
  }
  COFFER_UNRECORDED bool compare_exchange(T& expected, T desired, std::memory_order order, std::memory_order,
                                          Place at = Place::here()) {
    change(order, at);
    if (value_ == expected) {
      value_ = desired;
      return true;
    }
    expected = value_;
    recorded::failed(this, at);
    return false;
  }
  COFFER_UNRECORDED T fetch_or(T bits, std::memory_order order, Place at = Place::here()) {
    change(order, at);
    return replace(static_cast<T>(value_ | bits));
  }
  COFFER_UNRECORDED T fetch_and(T bits, std::memory_order order, Place at = Place::here()) {
    change(order, at);
    return replace(static_cast<T>(value_ & bits));
  }
  COFFER_UNRECORDED T fetch_add(T amount, std::memory_order order, Place at = Place::here()) {
    change(order, at);
    return replace(static_cast<T>(value_ + amount));
  }
  COFFER_UNRECORDED T fetch_sub(T amount, std::memory_order order, Place at = Place::here()) {
    change(order, at);
    return replace(static_cast<T>(value_ - amount));
  }

 private:
  COFFER_UNRECORDED void change(std::memory_order order, const Place& at) {
    recorded::access(this, sizeof(T), Kind::change, at);
    recorded::settle(value_, order);
  }
  COFFER_UNRECORDED T replace(T value) {
    const T before = value_;
    value_ = value;
    return before;
  }

  // As large and as aligned as the machine's own, so that records have the layout that they have in the library.
  alignas(std::atomic<T>) T value_{};
  static_assert(sizeof(std::atomic<T>) == sizeof(T));
};

template <class T>
class Owned {
 public:
  constexpr Owned() = default;
  constexpr explicit Owned(T value) : value_(value) {}

  COFFER_UNRECORDED T get(Place at = Place::here()) const {
    recorded::access(this, sizeof(T), Kind::owned_load, at);
    return recorded::seen(value_, relaxed);
  }
  COFFER_UNRECORDED void set(T value, Place at = Place::here()) {
    recorded::access(this, sizeof(T), Kind::owned_store, at);
    recorded::write(value_, value, relaxed);
  }
  COFFER_UNRECORDED bool decrement(Place at = Place::here()) {
    recorded::access(this, sizeof(T), Kind::owned_store, at);
    const T left = static_cast<T>(recorded::seen(value_, relaxed) - 1);
    recorded::write(value_, left, relaxed);
    return left == 0;
  }

 private:
  alignas(std::atomic<T>) T value_{};
};

inline void compiler_fence() {}
inline void full_fence() { recorded::fence(); }

}  // namespace coffer
