// SPDX-License-Identifier: MIT
// base/atomic.hpp for Relacy: the same types over its simulated memory, where a load gives any value that its order
// allows. One memory order of one place in the code can be weakened (see orders.hpp); what it was for must then fail.
#pragma once

#include <type_traits>

#include "base/base.hpp"
#include "orders.hpp"

namespace coffer {

inline constexpr std::memory_order relaxed = std::memory_order_relaxed;
inline constexpr std::memory_order acquire = std::memory_order_acquire;
inline constexpr std::memory_order release = std::memory_order_release;
inline constexpr std::memory_order acq_rel = std::memory_order_acq_rel;
inline constexpr std::memory_order seq_cst = std::memory_order_seq_cst;

// Relacy's cells live in a simulation; those that are constants of the program (a span without blocks) are never
// touched, and globals get theirs anew in each (Fresh in simulate.hpp).
template <class Value, class Cell>
class Simulated {
 public:
  constexpr Simulated() : dead_(0) {
    if (!std::is_constant_evaluated() && g_simulating) begin();
  }
  template <class T>
  constexpr explicit Simulated(T value) : dead_(0) {
    if (!std::is_constant_evaluated() && g_simulating) begin(value);
  }
  constexpr ~Simulated() {
    if (alive_ && g_simulating) cell_.~Cell();
  }
  Simulated(const Simulated&) = delete;
  Simulated& operator=(const Simulated&) = delete;
  Cell& cell() const { return const_cast<Cell&>(cell_); }

 private:
  void begin() { begin(Value{}); }
  template <class T>
  void begin(T value) {
    ::new (static_cast<void*>(&cell_)) Cell(value);
    alive_ = true;
  }
  bool alive_ = false;
  union {
    char dead_;
    Cell cell_;
  };
};

template <class T>
class Atomic {
 public:
  constexpr Atomic() = default;
  constexpr explicit Atomic(T value) : cell_(value) {}

  T load(std::memory_order order, Place at = Place::current()) const {
    return cell().load(as_asked(order, Role::load, at), info_of(at));
  }
  void store(T value, std::memory_order order, Place at = Place::current()) {
    cell().store(value, as_asked(order, Role::store, at), info_of(at));
  }
  T exchange(T value, std::memory_order order, Place at = Place::current()) {
    return cell().exchange(value, as_asked(order, Role::both, at), info_of(at));
  }
  bool compare_exchange(T& expected, T desired, std::memory_order success, std::memory_order failure,
                        Place at = Place::current()) {
    return cell().compare_exchange_weak(expected, desired, as_asked(success, Role::both, at), info_of(at),
                                        as_asked(failure, Role::failure, at), info_of(at));
  }
  T fetch_add(T amount, std::memory_order order, Place at = Place::current()) {
    return cell().fetch_add(amount, as_asked(order, Role::both, at), info_of(at));
  }
  T fetch_or(T bits, std::memory_order order, Place at = Place::current()) {
    return cell().fetch_or(bits, as_asked(order, Role::both, at), info_of(at));
  }
  T fetch_sub(T amount, std::memory_order order, Place at = Place::current()) {
    return fetch_add(static_cast<T>(0 - amount), order, at);
  }

 private:
  rl::atomic<T>& cell() const { return cell_.cell(); }
  Simulated<T, rl::atomic<T>> cell_;
};

// Others may look at what one thread writes: relaxed. But a block's link and the top of a local list are nobody else's
// business, and Relacy reports a race on them.
template <class T>
class Owned {
 public:
  constexpr Owned() = default;
  constexpr explicit Owned(T value) : cell_(value) {}
  T get(Place at = Place::current()) const { return cell_.cell().load(rl::mo_relaxed, info_of(at)); }
  void set(T value, Place at = Place::current()) { cell_.cell().store(value, rl::mo_relaxed, info_of(at)); }

 private:
  Simulated<T, rl::atomic<T>> cell_;
};

// A field that the code has plain: whoever touches it must be ordered with whoever wrote it, or Relacy reports a race.
template <class T>
class Plain {
 public:
  constexpr Plain() = default;
  constexpr explicit Plain(T value) : cell_(value) {}
  operator T() const { return cell_.cell()(RL_INFO).load(); }
  T operator->() const { return *this; }
  Plain& operator=(T value) {
    cell_.cell()(RL_INFO).store(value);
    return *this;
  }

 private:
  Simulated<T, rl::var<T>> cell_;
};

// What tells threads apart: simulated ones are all of one thread of the system. CMakeLists.txt puts it in place of the
// address of t_lock_identity.
inline uptr simulated_identity() { return rl::thread_index() + uptr{1}; }

namespace scalloc {
struct Block;
}

template <>
class Owned<scalloc::Block*> {
 public:
  using T = scalloc::Block*;
  constexpr Owned() = default;
  constexpr explicit Owned(T value) : cell_(value) {}
  T get(Place at = Place::current()) const { return cell_.cell()(info_of(at)).load(); }
  void set(T value, Place at = Place::current()) { cell_.cell()(info_of(at)).store(value); }

 private:
  Simulated<T, rl::var<T>> cell_;
};

inline void compiler_fence() {}

}  // namespace coffer
