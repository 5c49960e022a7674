// SPDX-License-Identifier: MIT
// A short program with threads for runs under valgrind, where large reservations fail and one thread runs at a time.

#include <cstdlib>
#include <cstring>

#include "hard/hammer.hpp"
#include "harness.hpp"
#include "support/glibc_malloc.hpp"

using namespace conformance;

CASE(threads_allocate) {
  pthread_t threads[4];
  for (std::size_t i = 0; i < 4; ++i) {
    threads[i] = start_thread(
        [](void* seed) -> void* {
          exercise(400, reinterpret_cast<unsigned long>(seed), 100'000);
          return nullptr;
        },
        reinterpret_cast<void*>(i));
  }
  exercise(400, 9, 3'000'000);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  void* block = malloc(5'000'000);
  memset(block, 1, 5'000'000);
  block = realloc(block, 9'000'000);
  CHECK(block != nullptr);
  free(block);
  void* zeroed = calloc(1000, 100);
  CHECK(all_zero(zeroed, 100'000));
  free(zeroed);
  free(aligned_alloc(4096, 12'288));  // a multiple, as C11 asked: memcheck 3.22 reports any other size as an error
  malloc_trim(0);
  check_metadata();
}
