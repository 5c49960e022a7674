// SPDX-License-Identifier: MIT
// The collector's command line.
#pragma once

#include <string>

#include "record/process.hpp"

namespace coffer::record {

struct Options {
  std::string output, preload;
  std::string tool;  // of valgrind's, to run the program with
  Settings settings;
  bool children = false, quiet = false;
  char** program = nullptr;
};

// Says so and ends with status 125: recording cannot begin.
[[noreturn]] void give_up(const std::string& what);
// With what errno says.
std::string with_reason(const std::string& what);
Options parse(int argc, char** argv);
// The file that execvp would execute; empty: errno says why there is none.
std::string find_program(const std::string& name);

}  // namespace coffer::record
