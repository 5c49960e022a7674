// SPDX-License-Identifier: MIT
#include "os/no_signals.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace coffer {
namespace {

volatile sig_atomic_t g_handled;

TEST(NoSignals, HandlersWaitForItsEnd) {
  g_handled = 0;
  struct sigaction before, handler = {};
  handler.sa_handler = [](int) { g_handled = g_handled + 1; };
  ASSERT_EQ(sigaction(SIGUSR1, &handler, &before), 0);
  {
    const NoSignals quiet;
    pthread_kill(pthread_self(), SIGUSR1);
    {
      const NoSignals within;
    }
    EXPECT_EQ(g_handled, 0);
  }
  usleep(1);  // ThreadSanitizer keeps a signal until the next call that it knows
  EXPECT_EQ(g_handled, 1);
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(NoSignals, WhatWasBlockedStaysSo) {
  sigset_t one, before, after;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR2);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
  errno = 7;
  {
    const NoSignals quiet;
    pthread_sigmask(SIG_BLOCK, nullptr, &after);
    EXPECT_EQ(sigismember(&after, SIGINT), 1);
  }
  EXPECT_EQ(errno, 7);
  pthread_sigmask(SIG_SETMASK, &before, &after);
  EXPECT_EQ(sigismember(&after, SIGUSR2), 1);
  EXPECT_EQ(sigismember(&after, SIGINT), 0);
}

}  // namespace
}  // namespace coffer
