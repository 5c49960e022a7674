// SPDX-License-Identifier: MIT
// What the programs of this folder share: a test run under Relacy's random schedules, and the command line.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ostream>

#include "orders.hpp"

namespace coffer {

// Lets others run until `done`, but not for ever: the random schedules that matter here are those in which a thread
// comes late. What is looked at is read relaxed, and orders nothing.
template <class Done>
void wait_a_little(Done&& done) {
  for (int i = 0; i < 40 && !done(); ++i) rl::yield(1, RL_INFO);
}

template <class Test>
bool simulate(const char* name, rl::iteration_t iterations) {
  std::ostream output(nullptr);  // what Relacy says of each step is for a debugger's eyes
  rl::test_params params;
  params.iteration_count = iterations;
  params.output_stream = &output;
  params.progress_stream = &output;
  g_simulating = true;
  const bool passed = rl::simulate<Test>(params);
  g_simulating = false;
  std::printf("%-20s %s\n", name, passed ? "holds" : rl::test_result_str(params.test_result));
  return passed;
}

// PROGRAM [--weaken FILE:LINE:s=ORDER] [ITERATIONS]; run_all(iterations): whether every test holds. Exit status 1: some
// test found an error.
template <class RunAll>
int run_program(int count, char** arguments, RunAll&& run_all) {
  rl::iteration_t iterations = 20'000;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--weaken") == 0 && i + 1 < count) {
      weaken(arguments[++i]);
    } else {
      iterations = static_cast<rl::iteration_t>(std::atoll(arguments[i]));
    }
  }
  if (iterations == 0) return 2;
  const bool passed = run_all(iterations);
  print_places();
  return passed ? 0 : 1;
}

// A global of the code, for one simulation: its cells are made with this and end with it.
template <class T>
struct Fresh {
  explicit Fresh(T& global) : object(global) { ::new (static_cast<void*>(&object)) T(); }
  ~Fresh() { object.~T(); }
  T& object;
};

}  // namespace coffer
