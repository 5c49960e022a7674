// SPDX-License-Identifier: MIT
#include "orders.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/base.hpp"
#include "os/os.hpp"

namespace coffer {

void assertion_failed(const char* file, int line, const char* what) {
  rl::ctx().fail_test(what, rl::test_result_user_assert_failed,
                      rl::debug_info("assertion", file, static_cast<unsigned>(line)));
  std::abort();
}

void os::yield() { rl::yield(1, RL_INFO); }

namespace {

const char* g_weak_place = "";
rl::memory_order g_weak_order;

const char* name_of(std::memory_order order) {
  switch (order) {
    case std::memory_order_acquire:
      return "acquire";
    case std::memory_order_release:
      return "release";
    case std::memory_order_acq_rel:
      return "acq_rel";
    case std::memory_order_seq_cst:
      return "seq_cst";
    default:
      return "relaxed";
  }
}

rl::memory_order simulated(std::memory_order order) {
  switch (order) {
    case std::memory_order_acquire:
      return rl::mo_acquire;
    case std::memory_order_release:
      return rl::mo_release;
    case std::memory_order_acq_rel:
      return rl::mo_acq_rel;
    case std::memory_order_seq_cst:
      return rl::mo_seq_cst;
    default:
      return rl::mo_relaxed;
  }
}

// A place that was passed. In a table of its own: operator new is Relacy's, inside of a simulation.
struct Passed {
  const char* file = nullptr;
  unsigned line = 0;
  bool failure = false;
  std::memory_order order = std::memory_order_relaxed;
  const char* function = nullptr;
  bool weak = false;
};
constexpr unsigned kMostPlaces = 256;
Passed g_passed[kMostPlaces];

const char* without_folders(const char* file) {
  const char* slash = std::strrchr(file, '/');
  return slash != nullptr ? slash + 1 : file;
}

void name_place(const Passed& passed, char* text, std::size_t size) {
  std::snprintf(text, size, "%s:%u:%c", without_folders(passed.file), passed.line, passed.failure ? 'f' : 's');
}

bool is_weak(std::memory_order order, Role role, const Place& at) {
  const bool failure = role == Role::failure;
  for (unsigned step = 0; step < kMostPlaces; ++step) {
    Passed& passed = g_passed[(at.line() * 2 + failure + step) % kMostPlaces];
    if (passed.file == nullptr) {
      passed = {at.file_name(), at.line(), failure, order, at.function_name()};
      char name[256];
      name_place(passed, name, sizeof name);
      passed.weak = std::strncmp(name, g_weak_place, std::strlen(name)) == 0 && g_weak_place[std::strlen(name)] == '=';
    }
    const bool same = passed.line == at.line() && passed.failure == failure &&
                      (passed.file == at.file_name() || std::strcmp(passed.file, at.file_name()) == 0);
    if (same) return passed.weak;
  }
  std::abort();
}

}  // namespace

rl::memory_order as_asked(std::memory_order order, Role role, Place at) {
  if (order == std::memory_order_relaxed || !is_weak(order, role, at)) return simulated(order);
  // A load cannot be acq_rel, nor a store: the half that it can have.
  if (g_weak_order == rl::mo_acq_rel && role == Role::load) return rl::mo_acquire;
  if (g_weak_order == rl::mo_acq_rel && role == Role::store) return rl::mo_release;
  return g_weak_order;
}

void weaken(const char* place_and_order) {
  const char* order = std::strchr(place_and_order, '=');
  if (order == nullptr) std::exit(2);
  g_weak_place = place_and_order;
  g_weak_order = std::strcmp(order, "=acq_rel") == 0 ? rl::mo_acq_rel : rl::mo_relaxed;
}

void print_places() {
  for (const Passed& passed : g_passed) {
    if (passed.file == nullptr) continue;
    char name[256];
    name_place(passed, name, sizeof name);
    std::printf("PLACE %s %s %s\n", name, name_of(passed.order), passed.function);
  }
}

}  // namespace coffer
