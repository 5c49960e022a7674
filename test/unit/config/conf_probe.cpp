// SPDX-License-Identifier: MIT
// Prints the options that it was started with, as Coffer read them. With an argument: the environment is taken away
// before Coffer reads it, as it is before libc has started.
#include <coffer/coffer.h>
#include <unistd.h>

#include <cstdio>

#include "config/environment.hpp"

int main(int count, char**) {
  char text[1000];
  if (count > 1) {
    const char* before = coffer::config::find_variable("COFFER_CONF");
    environ = nullptr;
    const char* after = coffer::config::find_variable("COFFER_CONF");
    std::puts(before != nullptr && before == after ? "the same" : "not the same");
    return 0;
  }
  coffer_free(coffer_malloc(1));
  coffer_conf(nullptr, text, sizeof text);
  std::puts(text);
  return 0;
}
