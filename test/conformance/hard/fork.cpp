// SPDX-License-Identifier: MIT
// fork, vfork and posix_spawn while other threads are inside malloc and free.
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hard/hammer.hpp"
#include "harness.hpp"
#include "support/glibc_malloc.hpp"

using namespace conformance;

namespace {

constexpr unsigned kChildSeconds = 20;

// Runs `work` in a child; the child must end by itself with status 0. The parent's threads that are given here may
// have all processors while the fork is made, and rest while the child, which they cannot reach any more, works.
template <class Work>
void in_child(int round, Work work, Hammer* to_rest = nullptr) {
  const pid_t child = fork();
  CHECK(child >= 0, "fork number %d", round);
  if (child == 0) {
    alarm(kChildSeconds);
    work();
    _exit(0);
  }
  if (to_rest != nullptr) to_rest->rest();
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(!(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM), "child %d hangs", round);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d: status %#x", round, status);
}

void* exercise_in_thread(void* seed) {
  exercise(200, reinterpret_cast<unsigned long>(seed));
  return nullptr;
}

void start_threads(unsigned long seed) {
  pthread_t threads[2];
  for (pthread_t& thread : threads) thread = start_thread(exercise_in_thread, reinterpret_cast<void*>(seed++));
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
}

struct Held {
  static constexpr int kCount = 300;
  void* blocks[kCount];
  std::size_t sizes[kCount];

  void allocate(unsigned long seed) {
    Random random(seed);
    for (int i = 0; i < kCount; ++i) {
      sizes[i] = i % 100 == 0 ? 1'000'000 : random.below(4000);
      blocks[i] = malloc(sizes[i]);
      fill(blocks[i], sizes[i], static_cast<std::uint64_t>(i));
    }
  }
  void free_some(int step) {
    for (int i = 0; i < kCount; i += step) {
      CHECK(holds_pattern(blocks[i], sizes[i], static_cast<std::uint64_t>(i)), "block %d of %zu bytes", i, sizes[i]);
      free(blocks[i]);
    }
  }
};
Held held;

}  // namespace

CASE(fork_while_threads_allocate) {
  const int forks = argument_number(0) == 0 ? 2000 : static_cast<int>(argument_number(0));
  held.allocate(1);
  Hammer hammer(3, 100'000, 40);
  Random random(2);
  for (int round = 0; round < forks; ++round) {
    const auto work = [round] {
      exercise(60, static_cast<unsigned long>(round), 50'000);
      held.free_some(1 + round % 7);
      if (round % 10 == 0) start_threads(static_cast<unsigned long>(round));
      if (round % 40 == 0) in_child(round, [round] { exercise(100, static_cast<unsigned long>(round) + 7); });
      if (round % 20 == 0) check_metadata();
      exercise(30, static_cast<unsigned long>(round) + 13, 50'000);
    };
    in_child(round, work, &hammer);
    hammer.go_on(1 + random.below(600));
    if (round % 50 == 0) exercise(100, static_cast<unsigned long>(round));
  }
  hammer.stop();
  held.free_some(1);
  check_metadata();
}

// The forking thread is itself one of many that fork.
CASE(fork_from_many_threads) {
  Hammer hammer(1, 100'000);
  pthread_t threads[4];
  for (pthread_t& thread : threads) {
    thread = start_thread(
        [](void*) -> void* {
          for (int round = 0; round < 100; ++round) {
            exercise(20, static_cast<unsigned long>(round));
            in_child(round, [round] { exercise(50, static_cast<unsigned long>(round)); });
          }
          return nullptr;
        },
        nullptr);
  }
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
}

// A child that outlives its parent's threads and goes on for long, as a server's worker does: everything it allocates
// and frees, threads included, must leave the metadata in order, and memory must not grow.
CASE(child_goes_on_for_long) {
  held.allocate(2);
  Hammer hammer(3, 300'000);
  for (int round = 0; round < 5; ++round) {
    in_child(round, [] {
      held.free_some(1);
      for (unsigned long i = 0; i < 20; ++i) {
        exercise(1000, i, 3'000'000);
        start_threads(i);
      }
      check_metadata();
      malloc_trim(0);
      check_metadata();
    });
  }
}

CASE(chain_of_children) {
  struct Chain {
    static void link(int depth) {
      exercise(100, static_cast<unsigned long>(depth));
      if (depth == 8) return;
      Hammer hammer(2, 100'000);
      in_child(depth, [depth] { link(depth + 1); });
    }
  };
  Chain::link(0);
}

// glibc runs atfork handlers in the reverse order of registration before a fork: handlers of the program run both
// before and after the allocator's, and may allocate.
CASE(fork_handlers_that_allocate) {
  static void* kept = nullptr;
  const auto before = [] { kept = realloc(kept, 5000); };
  const auto after = [] { exercise(20, 3); };
  CHECK(pthread_atfork(before, after, after) == 0);
  Hammer hammer(3, 100'000);
  for (int round = 0; round < 200; ++round) in_child(round, [] { free(kept); });
}

namespace {

std::atomic<bool> streams_stop{false};

template <class Step>
void* repeat(void*) {
  while (!streams_stop.load(std::memory_order_relaxed)) Step()();
  return nullptr;
}

struct FlushAll {
  void operator()() const { CHECK(fflush(nullptr) == 0); }
};
struct WriteStream {
  void operator()() const {
    FILE* stream = fopen("/dev/null", "w");
    CHECK(stream != nullptr);
    for (int i = 0; i < 50; ++i) fprintf(stream, "line %d of a stream\n", i);
    fclose(stream);
  }
};
struct ReadInAThread {
  static void* read(void*) {
    FILE* stream = fopen("/proc/self/status", "r");
    CHECK(stream != nullptr);
    char* line = nullptr;
    std::size_t size = 0;
    while (getline(&line, &size, stream) >= 0) {
    }
    free(line);
    fclose(stream);
    return nullptr;
  }
  void operator()() const { CHECK(pthread_join(start_thread(read, nullptr), nullptr) == 0); }
};

}  // namespace

// issue 16: the C library's fork takes the lock of its list of streams after the handlers. Whoever holds that one
// (fflush of all) waits for a stream, and whoever has that stream may be inside malloc (getline): it must not wait for
// the thread that forks.
CASE(fork_while_streams_are_used) {
  const int forks = argument_number(0) == 0 ? 500 : static_cast<int>(argument_number(0));
  held.allocate(3);
  pthread_t threads[8];
  for (int i = 0; i < 8; ++i) {
    threads[i] = start_thread(i < 2 ? repeat<FlushAll> : i < 5 ? repeat<WriteStream> : repeat<ReadInAThread>, nullptr);
  }
  for (int round = 0; round < forks; ++round) {
    in_child(round, [round] {
      exercise(60, static_cast<unsigned long>(round), 50'000);
      held.free_some(1 + round % 7);
      if (round % 10 == 0) start_threads(static_cast<unsigned long>(round));
      check_metadata();
    });
    exercise(10, static_cast<unsigned long>(round), 50'000);
  }
  streams_stop.store(true, std::memory_order_relaxed);
  for (pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  held.free_some(1);
  check_metadata();
}

CASE(spawn_while_threads_allocate) {
  Hammer hammer(3, 300'000);
  char name[] = "/bin/true";
  char* arguments[] = {name, nullptr};
  char* environment[] = {nullptr};
  for (int round = 0; round < 400; ++round) {
    pid_t child = 0;
    CHECK(posix_spawn(&child, name, nullptr, nullptr, arguments, environment) == 0);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "spawn %d", round);
  }
}

// Between vfork and exec the child runs in the parent's memory. Strictly it may call nothing there; programs do call
// malloc, and it must neither hang nor harm the parent.
CASE(vfork_while_threads_allocate) {
  Hammer hammer(3, 300'000);
  char name[] = "/bin/true";
  char* arguments[] = {name, nullptr};
  char* environment[] = {nullptr};
  for (int round = 0; round < 1000; ++round) {
    void* volatile block = nullptr;
    const pid_t child = vfork();
    if (child == 0) {
      block = malloc(100);
      if (round % 4 == 0) execve(name, arguments, environment);
      _exit(0);
    }
    CHECK(child > 0);
    free(block);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "vfork %d", round);
    exercise(10, static_cast<unsigned long>(round));
  }
  hammer.stop();
  check_metadata();
}

namespace {

std::atomic<int> forks_by_signals;
int most_forks;

// In this thread, and those that it starts from now on.
void mask_signals(int how) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  CHECK(pthread_sigmask(how, &one, nullptr) == 0);
}

// Calls alone, so that handlers come in the midst of one.
void* churn(void* number) {
  Random random(reinterpret_cast<unsigned long>(number));
  void* blocks[64] = {};
  // The thread's first call comes before the first handler: it may be in pthread_atfork, which has a lock that fork
  // takes.
  blocks[0] = malloc(1);
  mask_signals(SIG_UNBLOCK);
  while (forks_by_signals < most_forks) {
    void*& slot = blocks[random.below(64)];
    free(slot);
    slot = malloc(random.below(8) == 0 ? random.below(3'000'000) : random.below(9000));
  }
  mask_signals(SIG_BLOCK);
  for (void* block : blocks) free(block);
  return nullptr;
}

// Signals come every millisecond, and each handler calls fork_once, until there were `forks`: in this thread, or in
// `threads` others.
void fork_by_signals(int forks, void (*fork_once)(int), unsigned long threads = 0) {
  most_forks = forks;
  forks_by_signals = 0;
  struct sigaction action = {};
  action.sa_handler = fork_once;
  CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  mask_signals(SIG_BLOCK);  // the C library's fork has a lock, too
  const pid_t parent = getpid();
  const pid_t sender = fork();
  if (sender == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // not by the clock: without signals the parent would wait for ever
    while (getppid() == parent && kill(parent, SIGUSR1) == 0) usleep(1000);
    _exit(0);
  }
  pthread_t others[2];
  for (unsigned long i = 0; i < threads; ++i) others[i] = start_thread(churn, reinterpret_cast<void*>(i + 1));
  for (unsigned long i = 0; i < threads; ++i) CHECK(pthread_join(others[i], nullptr) == 0);
  if (threads == 0) mask_signals(SIG_UNBLOCK);
  for (unsigned long seed = 1; forks_by_signals < forks; ++seed) exercise(1000, seed, 3'000'000);
  kill(sender, SIGKILL);
}

// In a handler: the child ends well.
void fork_in_handler(void (*in_child)()) {
  // Where a fork takes longer than the sender's pause the next signal is there when the handler ends, and what it
  // interrupted does not go on by a single instruction: so the forks must have an end by themselves.
  if (forks_by_signals >= most_forks) return;
  const pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds);
    in_child();
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) _exit(9);
  ++forks_by_signals;
}

}  // namespace

// A program of one thread may fork in a signal handler, and glibc sees to it that this works even when the signal
// interrupted malloc.
CASE(fork_in_a_signal_handler) {
  fork_by_signals(1000, [](int) { fork_in_handler([] {}); });
  check_metadata();
}

// Beside threads that allocate, too, and a reporter of crashes forks twice, so that nobody has to wait for it. POSIX
// promises nothing there, and glibc's malloc hangs.
CASE(fork_twice_in_a_signal_handler) {
  const auto fork_twice = [](int) {
    fork_in_handler([] {
      const pid_t second = fork();
      if (second == 0) _exit(0);
      int status = 0;
      if (second < 0 || waitpid(second, &status, 0) != second || status != 0) _exit(8);
    });
  };
  fork_by_signals(1000, fork_twice, 2);
  check_metadata();
}
