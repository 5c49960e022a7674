// SPDX-License-Identifier: MIT
// The least of a C++ program that can catch a failure: linked statically, it has of the runtime little more than that.
#include <cstdint>
#include <new>

#include "check.h"

int main() {
  try {
    opaque(::operator new(PTRDIFF_MAX));
  } catch (const std::bad_alloc&) {
    puts("good");
    return 0;
  }
  return 1;
}
