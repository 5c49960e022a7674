// SPDX-License-Identifier: MIT
// See late_runtime.c. Returns the number of the check that failed, or 0.
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"

extern "C" __attribute__((visibility("default"))) int run() {
  std::vector<std::string> texts(100, "a text too long for the string itself");
  if (texts.back().size() < 20) return 1;
  try {
    opaque(::operator new(PTRDIFF_MAX));
    return 2;
  } catch (const std::bad_alloc&) {
  }
  if (opaque(::operator new(PTRDIFF_MAX, std::nothrow)) != nullptr) return 3;
  std::set_new_handler([] { throw std::runtime_error("from the handler"); });
  try {
    opaque(::operator new[](PTRDIFF_MAX));
    return 4;
  } catch (const std::runtime_error&) {
  }
  if (opaque(::operator new(PTRDIFF_MAX, std::nothrow)) != nullptr) return 5;
  if (opaque(::operator new(PTRDIFF_MAX, std::align_val_t{64}, std::nothrow)) != nullptr) return 6;
  std::set_new_handler(nullptr);
  return 0;
}
