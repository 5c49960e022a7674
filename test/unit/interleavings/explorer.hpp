// SPDX-License-Identifier: MIT
// Runs a scenario of a few threads again and again, each time with its steps (operations on Atomics, and locks) in
// another order, until all orders have been seen that switch away from a thread that could go on at most so many times.
// Most errors of protocols need very few such switches.
//
// The threads are real ones, so that they have heaps and destructors of their own, but only one runs at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/base.hpp"

namespace coffer::test {

struct Actor {
  std::function<void()> prepare;  // in its thread, before anything is scheduled; one actor after the other
  std::function<void()> run;      // scheduled; then the thread ends, and its end is scheduled, too
};

struct Scenario {
  std::vector<Actor> actors;
  std::function<void()> before;  // in the exploring thread, before the actors are there
  std::function<void()> after;   // and when they are gone: expectations
};

inline constexpr u32 kUnlimited = ~u32{0};

// Returns the number of orders that were tried; stops at the first one in which an expectation failed, and tells it.
// More than `most` orders are a failure: the scenario is too large.
u32 explore(const Scenario& scenario, u32 switches, u32 most);

// Only steps on cells and locks in here are reasons to switch, besides explicit ones (schedule::step(nullptr)) and a
// lock that is held. A scenario names what its protocol consists of, and other steps (statistics, hints) do not
// multiply its orders. Without any call all steps count.
void watch(const void* from, usize bytes);
// Steps on Owned cells in here are reasons to switch, too.
void watch_owned(const void* from, usize bytes);

}  // namespace coffer::test
