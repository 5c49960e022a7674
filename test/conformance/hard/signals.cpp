// SPDX-License-Identifier: MIT
// A signal handler that interrupts malloc a thousand times a second and calls nothing of it.
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "hard/hammer.hpp"
#include "harness.hpp"

using namespace conformance;

#ifdef __GLIBC__
#define THREAD_OF(event) (event)._sigev_un._tid
#else
#define THREAD_OF(event) (event).sigev_notify_thread_id
#endif

namespace {

std::atomic<unsigned long> interruptions{0};

// Uses some stack and time, and other registers than a trivial handler would.
void handler(int) {
  const int error = errno;
  unsigned char bytes[2048];
  fill(bytes, sizeof bytes, interruptions.fetch_add(1, std::memory_order_relaxed));
  asm volatile("" : : "r"(bytes) : "memory");
  errno = error;
}

void start_timer(int signal, long period_ns, bool this_thread) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  CHECK(sigaction(signal, &action, nullptr) == 0);
  struct sigevent event = {};
  event.sigev_notify = this_thread ? SIGEV_THREAD_ID : SIGEV_SIGNAL;
  event.sigev_signo = signal;
  THREAD_OF(event) = static_cast<pid_t>(syscall(SYS_gettid));
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  const struct itimerspec period = {{0, period_ns}, {0, period_ns}};
  CHECK(timer_settime(timer, 0, &period, nullptr) == 0);
}

void* interrupted_thread(void* seed) {
  start_timer(SIGRTMIN, 1'000'000, true);
  for (unsigned long i = 0; i < 40; ++i) exercise(2000, reinterpret_cast<unsigned long>(seed) * 100 + i, 3'000'000);
  return nullptr;
}

}  // namespace

CASE(signals_interrupt_malloc) {
  start_timer(SIGALRM, 1'000'000, false);
  Hammer hammer(2);
  for (unsigned long round = 0; interruptions.load() < 1500 || round < 20; ++round) exercise(1000, round, 3'000'000);
  hammer.stop();
  note("%lu interruptions", interruptions.load());
  check_metadata();
}

// Each thread has its own timer, and its handler runs on a stack of its own.
CASE(signals_interrupt_every_thread) {
  pthread_t threads[4];
  for (std::size_t i = 0; i < 4; ++i) threads[i] = start_thread(interrupted_thread, reinterpret_cast<void*>(i));
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  note("%lu interruptions", interruptions.load());
  CHECK(interruptions.load() > 50, "%lu", interruptions.load());
  check_metadata();
}
