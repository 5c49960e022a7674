// SPDX-License-Identifier: MIT
// Libraries that come and go, and Coffer itself as a library that a running program loads.
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "hard/hammer.hpp"
#include "harness.hpp"

using namespace conformance;

namespace {

// The library of hard/plugin.cpp; its path is the first argument.
void* open_plugin() {
  CHECK(argument(0) != nullptr, "argument: the plugin's path");
  void* library = dlopen(argument(0), RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr, "%s", dlerror());
  return library;
}

template <class F>
F* of(void* library, const char* name) {
  void* found = dlsym(library, name);
  CHECK(found != nullptr, "%s", name);
  return reinterpret_cast<F*>(found);
}

struct Coffer {
  void* library;
  void* (*allocate)(std::size_t);
  void (*release)(void*);
  void* (*reallocate)(void*, std::size_t);
  std::size_t (*check)();
};

Coffer open_coffer() {
  const char* path = getenv("COFFER_LIB");
  if (path == nullptr || *path == '\0') skip("no library named");
  Coffer coffer = {};
  coffer.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  CHECK(coffer.library != nullptr, "%s", dlerror());
  if (dlsym(coffer.library, "coffer_malloc") == nullptr) skip("this library is not Coffer");
  coffer.allocate = of<void*(std::size_t)>(coffer.library, "coffer_malloc");
  coffer.release = of<void(void*)>(coffer.library, "coffer_free");
  coffer.reallocate = of<void*(void*, std::size_t)>(coffer.library, "coffer_realloc");
  coffer.check = of<std::size_t()>(coffer.library, "coffer_check");
  return coffer;
}

void use(const Coffer& coffer, unsigned long seed) {
  Random random(seed);
  void* blocks[100] = {};
  std::size_t sizes[100] = {};
  for (int round = 0; round < 5000; ++round) {
    const std::size_t i = random.below(100);
    if (blocks[i] != nullptr) CHECK(holds_pattern(blocks[i], sizes[i], i));
    if (random.below(3) == 0) {
      blocks[i] = coffer.reallocate(blocks[i], 2 * sizes[i] + 1);
      sizes[i] = 2 * sizes[i] + 1;
      if (sizes[i] > 100'000) sizes[i] = 100'000;
    } else {
      coffer.release(blocks[i]);
      sizes[i] = random.below(20'000);
      blocks[i] = coffer.allocate(sizes[i]);
    }
    CHECK(blocks[i] != nullptr);
    fill(blocks[i], sizes[i], i);
  }
  for (void* block : blocks) coffer.release(block);
}

Coffer shared;
std::atomic<int> step{0};

}  // namespace

CASE(plugin_comes_and_goes) {
  void* kept[300] = {};
  for (int round = 0; round < 300; ++round) {
    void* library = open_plugin();
    kept[round] = of<void*(std::size_t)>(library, "plugin_allocate")(100 + static_cast<std::size_t>(round));
    of<void()>(library, "plugin_run_threads")();
    CHECK(dlclose(library) == 0);
  }
  for (void* block : kept) free(block);
  check_metadata();
}

// Threads other than the one that closes have used the library, and their thread-local objects live in it.
CASE(plugin_used_by_threads_that_outlive_the_handle) {
  for (int round = 0; round < 100; ++round) {
    static void* library;
    library = open_plugin();
    const pthread_t thread = start_thread(
        [](void*) -> void* {
          auto* touch = of<void()>(library, "plugin_touch_thread_local");
          touch();
          step = 1;
          while (step != 2) usleep(100);
          return nullptr;
        },
        nullptr);
    while (step != 1) usleep(100);
    CHECK(dlclose(library) == 0);
    step = 2;
    pthread_join(thread, nullptr);
    step = 0;
  }
  check_metadata();
}

CASE(plugins_while_threads_allocate) {
  Hammer hammer(3, 300'000);
  for (int round = 0; round < 200; ++round) {
    void* library = open_plugin();
    free(of<void*(std::size_t)>(library, "plugin_allocate")(5000));
    CHECK(dlclose(library) == 0);
  }
}

// Run without LD_PRELOAD: the program's malloc is glibc's, Coffer's names are called.
CASE(coffer_loaded_late) {
  Hammer hammer(2, 100'000);
  // Threads that are there before the library is: its thread-local words must fit into their blocks.
  pthread_t threads[4];
  for (std::size_t i = 0; i < 4; ++i) {
    threads[i] = start_thread(
        [](void* seed) -> void* {
          while (step == 0) usleep(100);
          use(shared, reinterpret_cast<unsigned long>(seed));
          return nullptr;
        },
        reinterpret_cast<void*>(i));
  }
  exercise(1000, 1);
  shared = open_coffer();
  step = 1;
  use(shared, 77);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  for (int round = 0; round < 50; ++round) {
    pthread_join(start_thread(
                     [](void* seed) -> void* {
                       use(shared, reinterpret_cast<unsigned long>(seed));
                       return nullptr;
                     },
                     reinterpret_cast<void*>(static_cast<unsigned long>(round))),
                 nullptr);
  }
  CHECK(shared.check() == 0);
}

// The handle is closed while a thread that has a heap still lives, and then that thread ends; then it is opened again.
CASE(coffer_closed_before_a_thread_ends) {
  for (int round = 0; round < 20; ++round) {
    shared = open_coffer();
    step = 0;
    const pthread_t thread = start_thread(
        [](void*) -> void* {
          use(shared, 5);
          step = 1;
          while (step != 2) usleep(100);
          return nullptr;
        },
        nullptr);
    while (step != 1) usleep(100);
    use(shared, 6);
    CHECK(dlclose(shared.library) == 0);
    step = 2;
    pthread_join(thread, nullptr);
    exercise(100, 1);
  }
}
