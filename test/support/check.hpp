// SPDX-License-Identifier: MIT
// How the randomised tests fail: one line on stderr that says what is wrong, then abort. The line is also kept for
// whoever watches the process (the shrinker), if it gave a place for it.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace coffer::test {

inline constexpr std::size_t kFailureTextBytes = 512;

// In memory shared with the watcher, or nullptr.
inline char* g_failure_text = nullptr;

[[noreturn]] [[gnu::format(printf, 3, 4), gnu::cold, gnu::noinline]] inline void fail(const char* file, int line,
                                                                                      const char* format, ...) {
  char text[kFailureTextBytes];
  const char* slash = std::strrchr(file, '/');
  const int head = std::snprintf(text, sizeof text, "%s:%d: ", slash != nullptr ? slash + 1 : file, line);
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text + head, sizeof text - static_cast<std::size_t>(head), format, arguments);
  va_end(arguments);
  if (g_failure_text != nullptr) std::memcpy(g_failure_text, text, sizeof text);
  std::fprintf(stderr, "%s\n", text);
  std::abort();
}

}  // namespace coffer::test

// The message is a printf format with its arguments: these tests live from telling sizes and addresses.
#define REQUIRE(condition, ...) \
  (__builtin_expect(!!(condition), 1) ? (void)0 : ::coffer::test::fail(__FILE__, __LINE__, __VA_ARGS__))
