// SPDX-License-Identifier: MIT
// Tests of what the whole process has once. A program of units never uses Coffer itself: each FRESH_TEST runs in a
// forked child, where Coffer is as it is before the first allocation. Expectations work there as anywhere.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <utility>

#include "base/base.hpp"

namespace coffer::test {

inline constexpr unsigned kChildSeconds = 120;  // a child that hangs ends by SIGALRM, and its test is named

// What became of a child, and what it wrote to stderr.
struct Outcome {
  int status = 0;
  std::string errors;
  bool aborted() const { return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT; }
  bool succeeded() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
};

// For the child: it must not run the parent's exit handlers.
[[noreturn]] inline void end_child() {
  std::fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

// Runs `body` in a child and waits for it; stderr stays the parent's.
template <class Body>
int status_of(Body&& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds);
    std::forward<Body>(body)();
    end_child();
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// Leaves out what QEMU says of a program that it emulates and that dies of a signal.
inline void drop_emulators_line(std::string& errors) {
  const std::size_t begin = errors.find("qemu: uncaught target signal");
  if (begin == std::string::npos) return;
  const std::size_t end = errors.find('\n', begin);
  errors.erase(begin, end == std::string::npos ? end : end + 1 - begin);
}

// The same, with what the child writes to stderr.
template <class Body>
Outcome outcome_of(Body&& body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    std::forward<Body>(body)();
    end_child();
  }
  close(ends[1]);
  Outcome outcome;
  char buffer[1024];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    outcome.errors.append(buffer, static_cast<usize>(got));
  }
  close(ends[0]);
  EXPECT_EQ(waitpid(child, &outcome.status, 0), child);
  drop_emulators_line(outcome.errors);
  return outcome;
}

template <class Body>
void run_fresh(Body&& body) {
  const int status = status_of(std::forward<Body>(body));
  if (WIFSIGNALED(status)) {
    ADD_FAILURE() << "the child died of signal " << WTERMSIG(status);
  } else {
    EXPECT_EQ(WEXITSTATUS(status), 0) << "see the failures above, which are the child's";
  }
}

}  // namespace coffer::test

#define FRESH_TEST(suite, name)                                     \
  static void suite##_##name();                                     \
  TEST(suite, name) { ::coffer::test::run_fresh(&suite##_##name); } \
  static void suite##_##name()
