// SPDX-License-Identifier: MIT
#include "probe.h"

#include <new>
#include <thread>

static void* by_new(size_t size) { return ::operator new(size); }
static void by_delete(void* block) { ::operator delete(block); }

int main() {
  bool threw = false;
  try {
    volatile size_t size = static_cast<size_t>(-1) / 2 - 1;
    ::operator delete(::operator new(size));
  } catch (const std::bad_alloc&) {
    threw = true;
  }
  int counts = 0;
  std::thread([&] { counts = probe_counts(by_new, by_delete); }).join();
  return probe_report(threw && counts);
}
