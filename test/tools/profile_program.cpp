// SPDX-License-Identifier: MIT
// A program whose heap profile is known: functions that allocate so much, of which so much stays; by threads and in
// forked children, too.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "coffer/coffer.h"

extern "C" void coffer_profile_start(size_t) noexcept __attribute__((weak));
extern "C" void coffer_profile_stop(void) noexcept __attribute__((weak));
extern "C" int coffer_profile_dump(const char*) noexcept __attribute__((weak));

namespace known {

std::vector<void*>* g_kept;

__attribute__((noinline)) void keep(size_t size) { g_kept->push_back(std::malloc(size)); }

__attribute__((noinline)) void pass(size_t size) {
  void* volatile block = std::malloc(size);
  std::free(block);
}

__attribute__((noinline)) void* zeroed(size_t size) { return std::calloc(1, size); }

}  // namespace known

int main(int argc, char** argv) {
  using namespace known;
  static std::vector<void*> kept;
  g_kept = &kept;
  kept.reserve(50'000);
  const bool by_api = argc > 2 && std::strcmp(argv[1], "api") == 0;
  if (by_api) coffer_profile_start(1);
  if (argc > 1 && std::strcmp(argv[1], "signal") == 0) {
    for (int i = 0; i < 3000; ++i) {
      pass(4000);
      if (i == 1000) kill(getpid(), std::atoi(argv[2]));
    }
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "killed") == 0) {
    pass(1000);
    kill(getpid(), SIGKILL);
  }
  for (int i = 0; i < 20'000; ++i) {
    keep(1000);
    pass(3000);
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 5000; ++i) std::free(zeroed(2000));
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (argc > 1 && std::strcmp(argv[1], "fork") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < 20'000; ++i) pass(100);
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return 1;
  }
  if (by_api) {
    coffer_profile_stop();
    pass(1'000'000);
    return coffer_profile_dump(argv[2]) == 0 ? 0 : 5;
  }
  return 0;
}
