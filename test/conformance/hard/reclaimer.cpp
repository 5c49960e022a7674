// SPDX-License-Identifier: MIT
// Memory that waits for a program that breathes, and the thread that gives it back when the program is quiet: it must
// come, do its work and go, and nobody else may notice. (Coffer alone promises this.)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "harness.hpp"

using namespace conformance;

namespace {

constexpr std::size_t kMega = 1'000'000;
constexpr std::size_t kMost = 100 * kMega / 1000;
void* g_blocks[kMost];

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

long minor_faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

int threads() { return static_cast<int>(status_kib("Threads")); }

void require_coffer() {
  if (!is_coffer()) skip("Coffer's promise alone");
}

void breathe_once(std::size_t size) {
  const std::size_t count = 100 * kMega / size;
  for (std::size_t i = 0; i < count; ++i) {
    g_blocks[i] = malloc(size);
    CHECK(g_blocks[i] != nullptr);
    memset(g_blocks[i], 1, size);
  }
  for (std::size_t i = 0; i < count; ++i) free(g_blocks[i]);
}

void breathe(int times, std::size_t size) {
  for (int i = 0; i < times; ++i) breathe_once(size);
}

// Runs `body` in a child; its exit status, or 1000 + the signal that ended it.
template <class Body>
int in_child(Body&& body) {
  const pid_t child = fork();
  CHECK(child >= 0, "errno %d", errno);
  if (child == 0) {
    alarm(50);
    body();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

void check_goes_back(int breaths, std::size_t size) {
  require_coffer();
  memset(g_blocks, 0, sizeof g_blocks);
  const std::size_t before = resident_kib();
  breathe(breaths, size);
  CHECK(resident_kib() > before + 60'000, "%d breaths of 100 MB: %zu KiB before, %zu now", breaths, before,
        resident_kib());
  const double start = now();
  std::size_t left = 0;
  do {
    usleep(50'000);
    left = resident_kib();
  } while (left > 25'000 && now() - start < 5);
  note("%zu KiB left after %.2f s", left, now() - start);
  CHECK(now() - start < 2.5, "%zu KiB are left", left);
  while (threads() > 1 && now() - start < 8) usleep(50'000);
  CHECK(threads() == 1, "%d threads", threads());
}

}  // namespace

CASE(breathing_costs_no_faults) {
  require_coffer();
  memset(g_blocks, 0, sizeof g_blocks);
  for (const std::size_t size : {std::size_t{1000}, std::size_t{100'000}}) {
    breathe(4, size);
    const long before = minor_faults();
    breathe(10, size);
    const long faults = minor_faults() - before;
    note("%ld faults in 10 breaths of 100 MB in blocks of %zu", faults, size);
    // 100 MB are 24,400 pages.
    CHECK(faults < 10 * 500, "%ld faults", faults);
  }
}

CASE(small_blocks_go_back_in_quiet) { check_goes_back(6, 1000); }
CASE(large_blocks_go_back_in_quiet) { check_goes_back(6, 100'000); }
// Nobody knows whether it is a breath, so it waits, too: not as long.
CASE(a_first_fall_of_small_blocks_goes_back_in_quiet) { check_goes_back(1, 1000); }
CASE(a_first_fall_of_large_blocks_goes_back_in_quiet) { check_goes_back(1, 100'000); }
CASE(a_first_fall_of_vast_blocks_goes_back_in_quiet) { check_goes_back(1, 20'000'000); }

// What longer blocks left resident behind shorter ones, which live on.
CASE(tails_of_large_blocks_go_back_in_quiet) {
  require_coffer();
  constexpr std::size_t kBlocks = 100;
  constexpr std::size_t kLong = 4 << 20;
  constexpr std::size_t kShort = (2 << 20) + 4096;
  const std::size_t before = resident_kib();
  for (const std::size_t size : {kLong, kShort}) {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      g_blocks[i] = malloc(size);
      CHECK(g_blocks[i] != nullptr);
      memset(g_blocks[i], 1, size);
    }
    for (std::size_t i = 0; size == kLong && i < kBlocks; ++i) free(g_blocks[i]);
  }
  constexpr std::size_t kMostKib = 230 * kMega / 1024;
  const double start = now();
  std::size_t left = 0;
  do {
    usleep(50'000);
    left = resident_kib() - before;
  } while (left > kMostKib && now() - start < 8);
  note("%zu KiB left after %.2f s", left, now() - start);
  CHECK(left <= kMostKib, "%zu KiB are left of %zu that live", left, kBlocks * kShort / 1024);
}

// Nearly all of each span is free, and one thread alone has them all.
CASE(pages_inside_spans_go_back_in_quiet) {
  require_coffer();
  memset(g_blocks, 0, sizeof g_blocks);
  const std::size_t before = resident_kib();
  for (std::size_t i = 0; i < kMost; ++i) {
    g_blocks[i] = malloc(1000);
    CHECK(g_blocks[i] != nullptr);
    memset(g_blocks[i], 1, 1000);
  }
  for (std::size_t i = 0; i < kMost; ++i) {
    if (i % 50 != 0) free(g_blocks[i]);
  }
  const double start = now();
  std::size_t left = 0;
  do {
    usleep(50'000);
    left = resident_kib() - before;
  } while (left > 30'000 && now() - start < 5);
  note("%zu KiB left after %.2f s", left, now() - start);
  CHECK(now() - start < 2.5, "%zu KiB are left", left);
  while (threads() > 1 && now() - start < 8) usleep(50'000);
  CHECK(threads() == 1, "%d threads", threads());
}

CASE(a_small_program_has_no_reclaimer) {
  require_coffer();
  for (int i = 0; i < 1000; ++i) {
    for (std::size_t j = 0; j < 40; ++j) g_blocks[j] = malloc(100'000);
    for (std::size_t j = 0; j < 40; ++j) free(g_blocks[j]);
    CHECK(threads() == 1);
  }
}

CASE(the_option_forbids_it) {
  require_coffer();
  breathe(5, 10'000);
  for (int i = 0; i < 10; ++i) {
    CHECK(threads() == 1);
    usleep(20'000);
  }
}

CASE(the_end_of_main_does_not_wait) {
  require_coffer();
  for (int how = 0; how < 3; ++how) {
    const double start = now();
    const int status = in_child([&] {
      breathe(3, 10'000);
      CHECK(threads() == 2);
      if (how == 0) pthread_exit(nullptr);
      if (how == 1) exit(0);
      execl("/bin/true", "/bin/true", static_cast<char*>(nullptr));
      FAIL("execl");
    });
    CHECK(status == 0, "way %d: %d", how, status);
    CHECK(now() - start < 10, "way %d took %.2f s", how, now() - start);
    note("way %d: %.2f s", how, now() - start);
  }
}

CASE(fork_while_it_lives) {
  require_coffer();
  for (int round = 0; round < 12; ++round) {
    breathe(3, 10'000);
    CHECK(threads() == 2);
    const int status = in_child([&] {
      CHECK(threads() == 1);
      breathe(3, 10'000);
      check_metadata();
      if (round % 5 != 0) return;
      CHECK(threads() == 2, "the child has its own");
      const std::size_t before = resident_kib();
      for (int i = 0; i < 60 && resident_kib() > before - 60'000; ++i) usleep(100'000);
      CHECK(resident_kib() < before - 60'000, "%zu to %zu KiB", before, resident_kib());
    });
    CHECK(status == 0, "%d", status);
  }
}

CASE(a_vfork_child_starts_none) {
  require_coffer();
  breathe_once(10'000);
  while (threads() > 1) usleep(50'000);
  const pid_t child = vfork();
  if (child == 0) {
    // All of it in the parent's memory, as some programs do.
    breathe(3, 10'000);
    _exit(threads() == 1 ? 0 : 7);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", static_cast<unsigned>(status));
  breathe(3, 10'000);
  CHECK(threads() == 2, "the parent may");
}

// A filter that kills whoever makes a thread.
CASE(a_sandbox_with_one_thread_is_respected) {
  require_coffer();
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) skip("no filters: errno %d", errno);
  breathe(6, 10'000);
  CHECK(threads() == 1);
  check_metadata();
}

namespace {

std::atomic<int> g_handled, g_elsewhere;
pid_t g_main;

void on_signal(int) {
  g_handled.fetch_add(1);
  if (syscall(SYS_gettid) != g_main) g_elsewhere.fetch_add(1);
  errno = 0;
}

}  // namespace

CASE(signals_are_not_handled_on_it) {
  require_coffer();
  g_main = getpid();
  signal(SIGUSR1, on_signal);
  breathe(5, 10'000);
  CHECK(threads() == 2);
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  for (int i = 0; i < 200; ++i) {
    // While the main thread has it blocked, any other thread that has not would get it.
    sigprocmask(SIG_BLOCK, &blocked, &before);
    kill(getpid(), SIGUSR1);
    usleep(1000);
    sigprocmask(SIG_SETMASK, &before, nullptr);
  }
  CHECK(g_handled.load() == 200, "%d", g_handled.load());
  CHECK(g_elsewhere.load() == 0, "%d on another thread", g_elsewhere.load());
  errno = 0;
  breathe(20, 10'000);
  CHECK(errno == 0, "free set errno to %d", errno);
}

CASE(threads_and_reclaimer) {
  require_coffer();
  // Threads breathe at their own pace, and end, while the reclaimer comes and goes.
  static std::atomic<bool> stop;
  const auto work = [](void*) -> void* {
    void* blocks[200];
    Random random(reinterpret_cast<std::uintptr_t>(&blocks));
    while (!stop.load()) {
      for (void*& block : blocks) {
        const std::size_t size = 1000 + random.below(200'000);
        block = malloc(size);
        CHECK(block != nullptr);
        fill(block, size < 64 ? size : 64, reinterpret_cast<std::uintptr_t>(block));
      }
      for (void* block : blocks) {
        CHECK(holds_pattern(block, 64, reinterpret_cast<std::uintptr_t>(block)));
        free(block);
      }
      usleep(static_cast<useconds_t>(random.below(400'000)));
    }
    return nullptr;
  };
  pthread_t all[6];
  for (pthread_t& one : all) CHECK(pthread_create(&one, nullptr, work, nullptr) == 0);
  sleep(4);
  stop.store(true);
  for (pthread_t one : all) pthread_join(one, nullptr);
  const double start = now();
  while (threads() > 1 && now() - start < 8) usleep(50'000);
  CHECK(threads() == 1);
  check_metadata();
}
