// SPDX-License-Identifier: MIT
// Makes the n-th call to the operating system fail, for every n in a run: of each kind of call alone, once and from
// then on; and of all kinds together, from then on. (Once of all kinds together is once of the kind that the call has.)
//
//   sweep KIND [--step N]                        every n, or every N-th; KIND is all, reserve, commit ...
//                                                (fake::kind_name)
//   sweep --nth N --kinds MASK [--from-then-on] [--torn]   this one, in this process, for a debugger
//
// Each run has a process of its own, forked from one that never used the allocator: the first faults hit its start.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "fault/workload.hpp"
#include "os/fake/fake.hpp"
#include "support/arguments.hpp"

namespace coffer::test {
namespace {

namespace fake = os::fake;

constexpr unsigned kSecondsOfRun = 60;
constexpr int kMostReports = 10;
constexpr std::size_t kMostLiveAfterFaults = 256 * kKiB;  // one page of blocks a class, see Workload

struct Shared {
  volatile std::uint64_t counted, failed, refused;
};

void run_once(const fake::Faults& faults, Shared* result) {
  fake::set_faults(faults);
  Workload faulty(true, kMostLiveAfterFaults);
  faulty.run();
  result->counted = fake::counted_calls();
  result->failed = fake::failed_calls();
  result->refused = faulty.failures();
  // Whatever failed must leave nothing behind: now all must go well.
  fake::stop_faults();
  Workload(false, faulty.live_after()).run_short();
}

void print_case(const fake::Faults& faults) {
  std::printf("--nth %" PRIu64 " --kinds %u%s%s (%s)", faults.nth, faults.kinds,
              faults.duration == fake::Duration::from_then_on ? " --from-then-on" : "",
              faults.damage == fake::Damage::torn ? " --torn" : "", fake::kind_name(faults.kinds));
}

class Sweep {
 public:
  Sweep(Shared* shared, std::uint64_t step) : shared_(shared), step_(step) {}

  // Every n, or every step-th, until a run makes fewer than n calls. At least one call must have been there to fail.
  void run(fake::Faults faults) {
    std::uint64_t runs = 0, refused = 0;
    for (faults.nth = 1; reports_ < kMostReports; faults.nth += step_) {
      ++runs;
      *shared_ = {};
      const int status = run_child(faults);
      if (status != 0) report(faults, status);
      // A run that died did not count; the next n may tell.
      if (status == 0 && shared_->failed == 0) break;
      refused += shared_->refused;
      if (runs > 100'000) break;
    }
    REQUIRE(runs > 1, "the workload makes no call of kind %s", fake::kind_name(faults.kinds));
    runs_ += runs;
    faults.nth = 0;
    std::printf("  %" PRIu64 " runs, %" PRIu64 " allocations refused: ", runs, refused);
    print_case(faults);
    std::printf("\n");
    std::fflush(stdout);
  }

  std::uint64_t runs() const { return runs_; }
  int reports() const { return reports_; }

 private:
  int run_child(const fake::Faults& faults) {
    std::fflush(nullptr);
    const pid_t child = fork();
    REQUIRE(child >= 0, "fork failed");
    if (child == 0) {
      alarm(kSecondsOfRun);
      run_once(faults, shared_);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child, "waitpid failed");
    return status;
  }

  void report(const fake::Faults& faults, int status) {
    ++reports_;
    std::printf("FAILED: ");
    print_case(faults);
    if (WIFSIGNALED(status)) {
      std::printf(": %s\n", WTERMSIG(status) == SIGALRM ? "took too long" : strsignal(WTERMSIG(status)));
    } else {
      std::printf(": exit status %d\n", WEXITSTATUS(status));
    }
  }

  Shared* shared_;
  std::uint64_t step_;
  std::uint64_t runs_ = 0;
  int reports_ = 0;
};

int sweep_kind(Shared* shared, std::uint32_t kinds, std::uint64_t step) {
  REQUIRE(fake::calls_of(fake::kReserve) == 0, "the allocator started before main: faults at its start are not tested");
  Sweep sweep(shared, step);
  fake::Faults faults;
  faults.kinds = kinds;
  if (kinds != fake::kAllKinds) sweep.run(faults);
  faults.duration = fake::Duration::from_then_on;
  sweep.run(faults);
  // What a torn call leaves matters most when many are torn.
  if (kinds == fake::kCommit || kinds == fake::kPurge) {
    faults.damage = fake::Damage::torn;
    sweep.run(faults);
  }
  std::printf("%" PRIu64 " runs, %d failed\n", sweep.runs(), sweep.reports());
  return sweep.reports() == 0 ? 0 : 1;
}

// The mask of a kind's name; 0: there is none.
std::uint32_t kind_named(const char* name) {
  if (std::strcmp(name, fake::kind_name(fake::kAllKinds)) == 0) return fake::kAllKinds;
  for (std::uint32_t kind = 1; kind < fake::kAllKinds; kind *= 2) {
    if (std::strcmp(name, fake::kind_name(kind)) == 0) return kind;
  }
  return 0;
}

int sweep_main(int argc, char** argv) {
  const Arguments arguments(argc, argv);
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED, "no memory to share with children");
  Shared* const shared = static_cast<Shared*>(memory);
  if (!arguments.given("--nth")) {
    const std::uint32_t kinds = argc >= 2 ? kind_named(argv[1]) : 0;
    const std::uint64_t step = arguments.number("--step", 1);
    if (kinds != 0 && step != 0) return sweep_kind(shared, kinds, step);
    std::fprintf(stderr, "usage: sweep KIND [--step N] | sweep --nth N --kinds MASK [--from-then-on] [--torn]\n");
    return 2;
  }
  const auto kinds = static_cast<std::uint32_t>(arguments.number("--kinds", 0));
  fake::Faults faults;
  faults.nth = arguments.number("--nth", 0);
  if (kinds != 0) faults.kinds = kinds;
  if (arguments.given("--from-then-on")) faults.duration = fake::Duration::from_then_on;
  if (arguments.given("--torn")) faults.damage = fake::Damage::torn;
  run_once(faults, shared);
  std::printf("%" PRIu64 " calls, %" PRIu64 " failed, %" PRIu64 " allocations refused\n", shared->counted,
              shared->failed, shared->refused);
  return 0;
}

}  // namespace
}  // namespace coffer::test

int main(int argc, char** argv) { return coffer::test::sweep_main(argc, argv); }
