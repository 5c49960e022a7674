// SPDX-License-Identifier: MIT
// The process's environment, readable from the first instruction of Coffer on.
#pragma once

#include <unistd.h>

#include <utility>

#include "base/base.hpp"

// The dynamic loader's; absent in other C libraries. In a dynamic program it points at argc, with argv and the
// environment behind it.
extern "C" __attribute__((weak, visibility("default"))) void* __libc_stack_end;

namespace coffer::config {

// The environment in the memory the kernel handed over at exec, of which `start` is the first word (argc); nullptr if
// that is not what lies there.
COFFER_INLINE char** environment_after(uptr* start) {
  constexpr uptr kMostArguments = 1u << 24;
  if (start == nullptr || start[0] > kMostArguments) return nullptr;
  const uptr count = start[0];
  for (uptr i = 0; i < count; ++i) {
    if (start[1 + i] == 0) return nullptr;
  }
  if (start[1 + count] != 0) return nullptr;
  return reinterpret_cast<char**>(start + 1 + count + 1);
}

// The environment as "NAME=value" strings with a null pointer at the end; nullptr if there is none. Coffer may run
// before the C library's own constructor has set `environ`; getenv finds nothing then, and that would pass for an unset
// variable. A static program's startup code sets it before anything else.
COFFER_INLINE char** environment() {
  if (environ != nullptr) return environ;
  if (&__libc_stack_end == nullptr) return nullptr;
  return environment_after(static_cast<uptr*>(__libc_stack_end));
}

// The value of a variable, or nullptr.
const char* find_variable(const char* name);

// Whether the variable is set. By comparing with characters that are part of the instructions: who asks this when the
// library is loaded reads no constant, around which the kernel would map 64 KiB.
template <const auto& name, usize... at>
COFFER_INLINE bool is_of_variable(const char* text, std::index_sequence<at...>) {
  return ((text[at] == name[at]) && ...) && text[sizeof...(at)] == '=';
}
template <const auto& name>
COFFER_INLINE bool is_set() {
  char** variables = environment();
  if (variables == nullptr) return false;
  for (; *variables != nullptr; ++variables) {
    if (is_of_variable<name>(*variables, std::make_index_sequence<sizeof name - 1>())) return true;
  }
  return false;
}

}  // namespace coffer::config
