// SPDX-License-Identifier: MIT
// malloc before main, while static and thread-local objects are destroyed, and after exit began.
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

// Blocks made before main: from the array that the dynamic loader runs before any constructor, from constructors of
// the first and the last priority, and from static objects.
void* early[4];
void* early_large;

void make_first(int, char**, char**) {
  early[0] = malloc(100);
  memset(early[0], 1, 100);
  early_large = malloc(5'000'000);
  memset(early_large, 1, 5'000'000);
  exercise(500, 1);
}
__attribute__((constructor(101))) void make_second() {
  early[1] = calloc(10, 10);
  exercise(500, 2);
}
__attribute__((constructor)) void make_third() {
  early[2] = aligned_alloc(64, 640);
  exercise(500, 3);
}

bool exit_case = false;
std::atomic<int> late_steps{0};

struct StaticObject {
  StaticObject() : block(malloc(1000)) { early[3] = malloc(33); }
  ~StaticObject() {
    free(block);
    exercise(500, 4);
    ++late_steps;
  }
  void* block;
};
StaticObject static_object;

// Runs after every static object is gone.
__attribute__((destructor(101))) void last_of_all() {
  exercise(500, 5);
  free(early[0]);
  if (!exit_case) return;
  const char text[] = "last destructor done\n";
  if (late_steps.load() < 2 || write(1, text, sizeof text - 1) < 0) _exit(9);
}

struct ThreadObject {
  ThreadObject() : block(malloc(500)) { memset(block, 7, 500); }
  ~ThreadObject() {
    free(block);
    exercise(50, 6);
  }
  void* block;
};

// Three of them, so that destructors run both before and after whatever the allocator itself has for threads' ends.
thread_local ThreadObject first_object;
thread_local ThreadObject second_object;
thread_local ThreadObject third_object;

pthread_key_t keys[8];
std::atomic<unsigned long> destructor_calls{0};

// Sets its key again until the last round that POSIX grants, with blocks of several sizes in each round.
void destroy_and_come_back(void* value) {
  auto* round = static_cast<std::size_t*>(value);
  const std::size_t key = round[1];
  const std::size_t next = round[0] + 1;
  destructor_calls.fetch_add(1, std::memory_order_relaxed);
  for (const std::size_t size : {16, 100, 700, 3000, 9000, 40'000}) {
    void* block = malloc(size);
    CHECK(block != nullptr);
    memset(block, 1, size);
    free(block);
  }
  free(value);
  if (next == PTHREAD_DESTRUCTOR_ITERATIONS) return;
  auto* again = static_cast<std::size_t*>(malloc(2 * sizeof(std::size_t) * (key + 1)));
  again[0] = next;
  again[1] = key;
  CHECK(pthread_setspecific(keys[key], again) == 0);
}

void* thread_with_keys(void*) {
  for (std::size_t key = 0; key < 8; ++key) {
    auto* value = static_cast<std::size_t*>(malloc(2 * sizeof(std::size_t)));
    value[0] = 0;
    value[1] = key;
    CHECK(pthread_setspecific(keys[key], value) == 0);
  }
  return nullptr;
}

}  // namespace

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char**, char**) = make_first;

CASE(malloc_before_main) {
  for (void* block : early) CHECK(block != nullptr);
  CHECK(all_zero(early[1], 100));
  for (int i = 1; i < 4; ++i) {
    early[i] = realloc(early[i], 10'000);
    free(early[i]);
  }
  free(early_large);
  check_metadata();
}

CASE(malloc_in_static_destructors) {
  exit_case = true;
  late_steps = 1;
  exit(0);
}

CASE(thread_local_destructors) {
  for (int round = 0; round < 1000; ++round) {
    pthread_t threads[4];
    for (pthread_t& thread : threads) {
      thread = start_thread(
          [](void*) -> void* {
            first_object.block = realloc(first_object.block, 700);
            exercise(20, 1);
            second_object.block = realloc(second_object.block, 70'000);
            third_object.block = realloc(third_object.block, 20);
            return nullptr;
          },
          nullptr);
    }
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
  }
  check_metadata();
}

// An allocator that ties a thread's heap to a key of its own loses it in the first round, and must neither leak a heap
// in each later one nor use the one that is gone.
CASE(key_destructors_in_every_round) {
  for (pthread_key_t& key : keys) CHECK(pthread_key_create(&key, destroy_and_come_back) == 0);
  std::size_t settled = 0;
  for (int round = 0; round < 3000; ++round) {
    pthread_t threads[2];
    for (pthread_t& thread : threads) thread = start_thread(thread_with_keys, nullptr);
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
    if (round == 300) settled = resident_kib();
  }
  const unsigned long expected = 3000ul * 2 * 8 * PTHREAD_DESTRUCTOR_ITERATIONS;
  CHECK(destructor_calls == expected, "%lu of %lu", destructor_calls.load(), expected);
  const std::size_t end = resident_kib();
  note("resident after 600 threads %zu KiB, after 6,000 %zu KiB", settled, end);
  CHECK(end < settled + 3000, "from %zu to %zu KiB", settled, end);
  check_metadata();
}

// A thread whose very first allocation happens in a destructor.
CASE(first_allocation_in_a_destructor) {
  static pthread_key_t key;
  CHECK(pthread_key_create(&key, [](void*) { exercise(30, 9); }) == 0);
  for (int round = 0; round < 1000; ++round) {
    const pthread_t thread = start_thread(
        [](void*) -> void* {
          pthread_setspecific(key, &key);
          return nullptr;
        },
        nullptr);
    pthread_join(thread, nullptr);
  }
  CHECK(resident_kib() < 30'000, "%zu KiB", resident_kib());
  check_metadata();
}

CASE(exit_while_threads_allocate) {
  static Hammer* hammer = new Hammer(4);
  while (hammer->rounds() < 10'000) usleep(1000);
  CHECK(atexit([] {
          exercise(2000, 11);
          usleep(20'000);
          exercise(2000, 12);
        }) == 0);
  exit(0);
}

CASE(quick_exit_while_threads_allocate) {
  static Hammer* hammer = new Hammer(4);
  while (hammer->rounds() < 10'000) usleep(1000);
  CHECK(at_quick_exit([] { exercise(2000, 11); }) == 0);
  quick_exit(0);
}

// The main thread ends, the others go on and end the process later.
CASE(main_thread_ends_first) {
  static void* from_main[100];
  for (void*& block : from_main) block = malloc(300);
  static pthread_t main_thread;
  main_thread = pthread_self();
  start_thread(
      [](void*) -> void* {
        pthread_join(main_thread, nullptr);
        for (void* block : from_main) free(block);
        exercise(20'000, 1, 3'000'000);
        check_metadata();
        exit(0);
      },
      nullptr);
  pthread_exit(nullptr);
}
