// SPDX-License-Identifier: MIT
#include "config/environment.hpp"

namespace coffer::config {

const char* find_variable(const char* name) {
  char** variables = environment();
  if (variables == nullptr) return nullptr;
  for (; *variables != nullptr; ++variables) {
    const char* variable = *variables;
    usize same = 0;
    while (name[same] != 0 && variable[same] == name[same]) ++same;
    if (name[same] == 0 && variable[same] == '=') return variable + same + 1;
  }
  return nullptr;
}

}  // namespace coffer::config
