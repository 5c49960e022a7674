// SPDX-License-Identifier: MIT
#include "property/shrink.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "support/check.hpp"
#include "support/stretches.hpp"

namespace coffer::test {

namespace {

struct Shared {
  volatile std::uint64_t progress;
  char text[kFailureTextBytes];
};

using Clock = std::chrono::steady_clock;

class Shrinker {
 public:
  Shrinker(Operations operations, const std::function<Outcome(const Operations&)>& fails, unsigned seconds)
      : operations_(std::move(operations)), fails_(fails), end_(Clock::now() + std::chrono::seconds(seconds)) {}

  Operations run() {
    for (bool smaller = true; smaller && in_time();) {
      const std::size_t before = operations_.size();
      remove_slots();
      remove_stretches();
      smaller = operations_.size() < before;
    }
    simplify();
    return std::move(operations_);
  }

 private:
  bool in_time() const { return Clock::now() < end_; }

  // Takes the candidate if it still fails; drops what comes after the failure.
  bool take_if_failing(Operations candidate) {
    const Outcome outcome = fails_(candidate);
    if (!outcome.failed) return false;
    if (outcome.done < candidate.size()) candidate.resize(outcome.done);
    operations_ = std::move(candidate);
    return true;
  }

  // All operations on some of the slots at once: what a slot's block goes through hangs together.
  void remove_slots() {
    std::vector<std::uint32_t> slots;
    for (const Operation& operation : operations_) slots.push_back(operation.slot);
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    for (std::size_t width = (slots.size() + 1) / 2; width > 0 && in_time(); width = width == 1 ? 0 : (width + 1) / 2) {
      for (std::size_t first = 0; first < slots.size() && in_time();) {
        const std::size_t last = std::min(first + width, slots.size()) - 1;
        Operations rest;
        for (const Operation& operation : operations_) {
          if (operation.slot < slots[first] || operation.slot > slots[last]) rest.push_back(operation);
        }
        if (rest.size() < operations_.size() && take_if_failing(std::move(rest))) {
          slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(first),
                      slots.begin() + static_cast<std::ptrdiff_t>(last) + 1);
        } else {
          first += width;
        }
      }
    }
  }

  void remove_stretches() {
    test::remove_stretches(
        operations_, [&](Operations rest) { return take_if_failing(std::move(rest)); }, [&] { return in_time(); });
  }

  // Smaller sizes and plainer calls, one operation at a time.
  void simplify() {
    for (std::size_t i = 0; i < operations_.size() && in_time(); ++i) {
      if (operations_[i].kind <= kLastAllocating && operations_[i].kind != Kind::malloc) {
        Operations plainer = operations_;
        plainer[i].kind = Kind::malloc;
        take_if_failing(std::move(plainer));
      }
      for (std::uint64_t size : {std::uint64_t{1}, i < operations_.size() ? operations_[i].size / 2 : 0}) {
        if (i >= operations_.size() || size >= operations_[i].size || size == 0) continue;
        Operations smaller = operations_;
        smaller[i].size = size;
        take_if_failing(std::move(smaller));
      }
    }
  }

  Operations operations_;
  const std::function<Outcome(const Operations&)>& fails_;
  Clock::time_point end_;
};

}  // namespace

Outcome run_in_child(const std::function<void(volatile std::uint64_t* progress)>& body, unsigned seconds, bool quiet) {
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED, "no memory to share with a child");
  Shared* const shared = static_cast<Shared*>(memory);
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0, "fork failed");
  if (child == 0) {
    if (quiet) {
      const int null = open("/dev/null", O_WRONLY);
      if (null >= 0) dup2(null, STDERR_FILENO);
    }
    g_failure_text = shared->text;
    alarm(seconds);
    body(&shared->progress);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child, "waitpid failed");
  Outcome outcome;
  outcome.done = shared->progress;
  outcome.failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  if (outcome.failed) {
    char text[128];
    if (WIFSIGNALED(status)) {
      std::snprintf(text, sizeof text, "signal %d (%s)", WTERMSIG(status),
                    WTERMSIG(status) == SIGALRM ? "took too long" : strsignal(WTERMSIG(status)));
    } else {
      std::snprintf(text, sizeof text, "exit status %d", WEXITSTATUS(status));
    }
    outcome.how = shared->text[0] != 0 ? shared->text : text;
  }
  munmap(memory, sizeof(Shared));
  return outcome;
}

Operations shrink(Operations operations, const std::function<Outcome(const Operations&)>& fails, unsigned seconds) {
  return Shrinker(std::move(operations), fails, seconds).run();
}

}  // namespace coffer::test
