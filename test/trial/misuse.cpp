// SPDX-License-Identifier: MIT
#include "trial/misuse.hpp"

#include <coffer/coffer.h>
#include <sys/mman.h>
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
    if (other.at == nullptr || other.busy || other.by_handle || other.at == held.at) continue;
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
  // No pipe: other threads go on until the process is split off, and may leave a copy of it that has both ends.
  const int report = memfd_create("report", 0);
  REQUIRE(report >= 0, "no file for a report");
  const long child = fork_process();
  if (child == 0) {
    const rlimit none = {};
    setrlimit(RLIMIT_CORE, &none);
    // Of what a copy of this world has reported there, which has ended.
    if (ftruncate(report, 0) != 0 || lseek(report, 0, SEEK_SET) != 0) _exit(kMissed);
    dup2(report, STDERR_FILENO);
    go_wrong(held, wrong, between, others);
  }
  int status = 0;
  REQUIRE(child > 0 && waitpid(static_cast<pid_t>(child), &status, 0) == child, "fork failed");
  char said[400] = {};
  REQUIRE(pread(report, said, sizeof said - 1, 0) >= 0, "no report to read");
  close(report);
  const bool reported = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && std::strncmp(said, "coffer: ", 8) == 0;
  REQUIRE(reported, "block %p of %zu bytes: misuse %u after %u others was not reported: status %#x, '%s'",
          static_cast<void*>(held.at), held.size, static_cast<unsigned>(wrong), between, static_cast<unsigned>(status),
          said);
}

}  // namespace coffer::trial
