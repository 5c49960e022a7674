// SPDX-License-Identifier: MIT
// What any thread may call: one with a stack of 16 KiB (PTHREAD_STACK_MIN), of which 12 are left to it, and one that
// was cancelled.
#include <limits.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "harness.hpp"
#include "support/glibc_malloc.hpp"

using namespace conformance;

namespace {

FILE* g_nowhere;

constexpr void (*kCalls[])() = {
    [] { malloc_stats(); },
    [] { CHECK(mallinfo2().arena != 0); },
    [] { malloc_trim(0); },
    [] {
      // More is free than stays: the limits of the control group are read.
      static void* blocks[40];
      for (void*& block : blocks) memset(block = malloc(900'000), 1, 900'000);
      for (void* block : blocks) free(block);
    },
    [] {
      alignas(16) static char figures[4096];
      if (auto* all = function<int(void*, std::size_t)>("coffer_stats")) CHECK(all(figures, sizeof figures) == 0);
      if (auto* one = function<int(unsigned, void*, std::size_t)>("coffer_class_stats")) {
        CHECK(one(3, figures, sizeof figures) == 0);
      }
      if (auto* heap = function<int(unsigned, void*, std::size_t)>("coffer_heap_stats"))
        heap(1, figures, sizeof figures);
    },
    [] { check_metadata(); },
    [] {
      if (auto* conf = function<int(const char*, char*, std::size_t)>("coffer_conf"))
        CHECK(conf(nullptr, nullptr, 0) > 0);
    },
    [] {
      auto* start = function<void(std::size_t)>("coffer_profile_start");
      auto* dump = function<int(const char*)>("coffer_profile_dump");
      auto* stop = function<void()>("coffer_profile_stop");
      if (start == nullptr || dump == nullptr || stop == nullptr) return;
      start(1000);
      for (int i = 0; i < 100; ++i) free(malloc(1000));
      dump("/dev/null");
      stop();
    },
};

void on_smallest_stack(void (*body)()) {
  pthread_attr_t attributes;
  pthread_t thread;
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstacksize(&attributes, static_cast<std::size_t>(PTHREAD_STACK_MIN)) == 0);
  const auto call = [](void* function) -> void* {
    reinterpret_cast<void (*)()>(function)();
    return nullptr;
  };
  CHECK(pthread_create(&thread, &attributes, call, reinterpret_cast<void*>(body)) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
}

}  // namespace

// issue 16: malloc_stats had a text of 4 KiB beside a record of 5 and another text.
CASE(figures_on_the_smallest_stack) {
  g_nowhere = fopen("/dev/null", "w");
  CHECK(g_nowhere != nullptr);
  FILE* const saved = stderr;
  static void* blocks[10'000];
  for (void*& block : blocks) block = malloc(100);
  replace_stderr(g_nowhere);
  // At first the stream has no buffer yet: it is allocated meanwhile. Then it has none at all.
  for (int round = 0; round < 2; ++round) {
    for (auto* body : kCalls) on_smallest_stack(body);
    if (is_coffer()) on_smallest_stack([] { CHECK(malloc_info(0, g_nowhere) == 0); });  // glibc's has 9 KiB in fprintf
    g_nowhere = fopen("/dev/null", "w");
    CHECK(g_nowhere != nullptr && setvbuf(g_nowhere, nullptr, _IONBF, 0) == 0);
    replace_stderr(g_nowhere);
  }
  replace_stderr(saved);
  for (void* block : blocks) free(block);
}

// The report of a wrong free, too.
CASE(a_wrong_free_on_the_smallest_stack) {
  if (!is_coffer()) skip("the report is Coffer's");
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(ends[1], 2);
    on_smallest_stack([] { free(static_cast<char*>(hide(malloc(100))) + 1); });
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %d", status);
  char text[200] = {};
  CHECK(read(ends[0], text, sizeof text - 1) > 0 && strncmp(text, "coffer: free of 0x", 18) == 0, "%s", text);
}

// None of these functions is a point of cancellation: a thread that left malloc or free in the middle would take along
// what it has in hand. (malloc_info may be one, as all that writes to a stream.)
CASE(no_points_of_cancellation) {
  static std::size_t done = 0;
  FILE* const saved = stderr;
  g_nowhere = fopen("/dev/null", "w");
  CHECK(g_nowhere != nullptr && setvbuf(g_nowhere, nullptr, _IONBF, 0) == 0);
  replace_stderr(g_nowhere);
  const auto body = [](void*) -> void* {
    pthread_cancel(pthread_self());
    for (auto* call : kCalls) {
      call();
      ++done;
    }
    pthread_testcancel();
    return nullptr;
  };
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, body, nullptr) == 0);
  void* result = nullptr;
  CHECK(pthread_join(thread, &result) == 0);
  replace_stderr(saved);
  CHECK(done == sizeof kCalls / sizeof kCalls[0] && result == PTHREAD_CANCELED, "after %zu calls", done);
}
