// SPDX-License-Identifier: MIT
#include "config/environment.hpp"

#include <unistd.h>

// The dynamic loader's; absent in other C libraries. In a dynamic program it points at argc, with argv and the
// environment behind it.
extern "C" __attribute__((weak, visibility("default"))) void* __libc_stack_end;

namespace coffer::config {

char** environment_after(uptr* start) {
  constexpr uptr kMostArguments = 1u << 24;
  if (start == nullptr || start[0] > kMostArguments) return nullptr;
  const uptr count = start[0];
  for (uptr i = 0; i < count; ++i) {
    if (start[1 + i] == 0) return nullptr;
  }
  if (start[1 + count] != 0) return nullptr;
  return reinterpret_cast<char**>(start + 1 + count + 1);
}

// Coffer may run before the C library's own constructor has set `environ`; getenv finds nothing then, and that would
// pass for an unset variable. A static program's startup code sets it before anything else.
char** environment() {
  if (environ != nullptr) return environ;
  if (&__libc_stack_end == nullptr) return nullptr;
  return environment_after(static_cast<uptr*>(__libc_stack_end));
}

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
