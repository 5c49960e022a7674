// SPDX-License-Identifier: MIT
#include "trial/misuse.hpp"

#include <coffer/coffer.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "support/check.hpp"
#include "trial/kernel.hpp"

namespace coffer::trial {

namespace {

constexpr int kMissed = 7, kTwoOwners = 8;
// Allocations after a second free that was not seen at once: it has to be seen before the block has two owners.
constexpr u32 kAllocations = 3000;

[[noreturn]] void go_wrong(const Held& held, Wrong wrong, u32 between, const std::vector<Held>& others) {
  if (wrong == Wrong::freed_inside) {
    coffer_free(held.at + 16);
    _exit(kMissed);
  }
  coffer_free(held.at);
  for (const Held& other : others) {
    if (between == 0) break;
    if (other.at == nullptr || other.busy || other.at == held.at) continue;
    coffer_free(other.at);
    --between;
  }
  coffer_free(held.at);
  u32 times = 0;
  for (u32 i = 0; i < kAllocations; ++i) {
    if (coffer_malloc(held.size) == held.at && ++times == 2) _exit(kTwoOwners);
  }
  _exit(kMissed);
}

}  // namespace

void commit_misuse(const Held& held, Wrong wrong, u32 between, const std::vector<Held>& others) {
  int ends[2];
  REQUIRE(pipe(ends) == 0, "no pipe for a report");
  const long child = fork_process();
  if (child == 0) {
    const rlimit none = {};
    setrlimit(RLIMIT_CORE, &none);
    dup2(ends[1], STDERR_FILENO);
    go_wrong(held, wrong, between, others);
  }
  close(ends[1]);
  char said[400] = {};
  usize got = 0;
  for (ssize_t more; (more = read(ends[0], said + got, sizeof said - 1 - got)) > 0;) got += static_cast<usize>(more);
  close(ends[0]);
  int status = 0;
  REQUIRE(child > 0 && waitpid(static_cast<pid_t>(child), &status, 0) == child, "fork failed");
  const bool reported = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && std::strncmp(said, "coffer: ", 8) == 0;
  REQUIRE(reported, "block %p of %zu bytes: misuse %u after %u others was not reported: status %#x, '%s'",
          static_cast<void*>(held.at), held.size, static_cast<unsigned>(wrong), between, static_cast<unsigned>(status),
          said);
}

}  // namespace coffer::trial
