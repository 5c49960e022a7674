// SPDX-License-Identifier: MIT
// What happens when the library is loaded and when the process ends. (fork: exchange/registry.cpp, at the first
// allocation.)
#include "api/lifetime.hpp"

#include "api/report.hpp"
#include "api/shim.hpp"
#include "config/config.hpp"

namespace coffer::api {

const char lifetime_linked = 0;

namespace {

constexpr int kFirst = 101;  // before the constructors, and after the destructors, of the program itself

template <class A>
void loaded() {
  if constexpr (WatchedAllocator<A>) A::loaded();
}

template <class A>
void ending() {
  if constexpr (WatchedAllocator<A>) A::ending();
}

// Options that ask for a message get it even if the program never allocates.
__attribute__((constructor(kFirst))) void start() {
  config::load();
  loaded<Allocator>();
}

__attribute__((destructor(kFirst))) void end() {
  ending<Allocator>();
  if (config::options().stats) report_statistics();
}

}  // namespace

}  // namespace coffer::api
