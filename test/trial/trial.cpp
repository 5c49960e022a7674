// SPDX-License-Identifier: MIT
// Many worlds, each from a seed: see kHelp.
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <sstream>

#include "support/arguments.hpp"
#include "trial/driver.hpp"
#include "trial/grammar.hpp"

namespace coffer::trial {
namespace {

constexpr u64 kLength = 3000;
constexpr u64 kLongest = 1'000'000;
constexpr u64 kMostJobs = 256;  // each has a megabyte, and a file
constexpr u64 kShrinkSeconds = 60, kMostShrinkSeconds = 86'400;

constexpr const char* kHelp =
    R"(trial [--seed N] [--worlds N] [--seconds N] [--jobs N] [--length N] [--shrink-seconds N] [--report FILE]
trial --case FILE      one world from a text
trial --show --seed N  the text of one
trial --twice          each world is run twice: the hash of all its steps must be the same

Worlds have the seeds N, N + 1 and so on (without --seed: a new N), 500 of them. The first one that fails ends the
trial: it is shrunk and printed.
)";

using Clock = std::chrono::steady_clock;

struct Sums {
  u64 worlds = 0, operations = 0, steps = 0, calls = 0, failed_calls = 0, nulls = 0, threads = 0, switches = 0,
      rests = 0, children = 0, misuses = 0, longest_call = 0, most_yields = 0;
  u64 hash = 0;  // of all steps of all worlds, whatever order these end in
  void add(u64 seed, const Result& one) {
    ++worlds;
    const u64 both = (one.hash ^ seed) * 0x9e3779b97f4a7c15u;
    hash += both ^ both >> 32;
    operations += one.operations;
    steps += one.steps;
    calls += one.kernel_calls;
    failed_calls += one.failed_calls;
    nulls += one.nulls;
    threads += one.threads;
    switches += one.switches;
    rests += one.rests;
    children += one.children;
    misuses += one.misuses;
    longest_call = std::max(longest_call, one.longest_call);
    most_yields = std::max(most_yields, one.most_yields);
  }
  void print(double seconds) const {
    std::printf("%" PRIu64 " worlds, %" PRIu64 " operations, %" PRIu64 " steps, %" PRIu64 " threads, %" PRIu64
                " switches, %" PRIu64 " system calls of which %" PRIu64 " failed, %" PRIu64 " NULLs, %" PRIu64
                " looks at rest, %" PRIu64 " child processes, %" PRIu64 " misuses; longest call %" PRIu64
                " steps, most yields %" PRIu64 "; hash %016" PRIx64 "; %.1f s\n",
                worlds, operations, steps, threads, switches, calls, failed_calls, nulls, rests, children, misuses,
                longest_call, most_yields, hash, seconds);
  }
};

int complain(const char* what, const char* wrong) {
  std::fprintf(stderr, "trial: %s: %s\n", what, wrong);
  return 2;
}

u64 length_of(const test::Arguments& arguments) { return arguments.number_in("--length", kLength, 1, kLongest); }

int run_case(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  Scene scene;
  std::string wrong = "cannot be read";
  if (!file || !from_text(text.str(), scene, wrong)) return complain(path, wrong.c_str());
  if (scene.operations.empty()) return complain(path, "has no operations");
  const auto result = std::make_unique<Result>();
  const Verdict verdict = run_one(scene, result.get());
  std::printf("%s: %s; %" PRIu64 " steps, hash %016" PRIx64 "\n", path,
              verdict.failed ? verdict.how.c_str() : "nothing wrong", result->steps, result->hash);
  return verdict.failed ? 1 : 0;
}

// differs: only the second run of the world failed, by another hash, of which no shorter world would tell.
int report(u64 seed, u64 length, const Verdict& verdict, bool differs, u32 seconds) {
  std::printf("FAILED in the world of seed %" PRIu64 ": %s\nagain: build/test/trial/trial --seed %" PRIu64
              " --worlds 1 --length %" PRIu64 "%s\n",
              seed, verdict.how.c_str(), seed, length, differs ? " --twice" : "");
  std::fflush(stdout);
  if (differs || seconds == 0) return 1;
  bool cut_short = false;
  const Scene least = shrink(draw(seed, length), verdict, seconds, &cut_short);
  const Verdict last = run_one(least, nullptr);
  std::printf("shrunk, to be put into test/trial/cases: it fails by: %s\n%s", last.how.c_str(), to_text(least).c_str());
  if (cut_short) std::printf("# It may become shorter in more time: --shrink-seconds is %u.\n", seconds);
  return 1;
}

int run_seeds(const test::Arguments& arguments) {
  const u64 first = arguments.number("--seed", std::random_device{}());
  const u64 seconds = arguments.number("--seconds", 0);
  const u64 worlds = arguments.number_in("--worlds", seconds != 0 ? ~u64{0} : 500, 1, ~u64{0});
  const u64 length = length_of(arguments);
  const u32 jobs = static_cast<u32>(arguments.number_in("--jobs", 1, 1, kMostJobs));
  const char* const path = arguments.text("--report", nullptr);
  if (path != nullptr && !std::ofstream(path)) return complain(path, "cannot be written");
  const bool twice = arguments.given("--twice");
  const u64 shrink = arguments.number_in("--shrink-seconds", kShrinkSeconds, 0, kMostShrinkSeconds);
  std::printf("seed %" PRIu64 "\n", first);
  std::fflush(stdout);
  const auto start = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  Sums sums;
  u64 given = 0, bad = 0;
  Verdict wrong;
  bool differs = false;
  std::map<u64, u64> hashes;  // of worlds that ran once
  const u64 runs = twice ? 2 : 1;
  run_all(
      jobs,
      [&](Scene& scene, u64& number) {
        if (given >= worlds * runs || (seconds != 0 && passed() > static_cast<double>(seconds))) return false;
        number = first + given++ / runs;
        scene = draw(number, length);
        return true;
      },
      [&](u64 number, const Verdict& verdict, const Result& result) {
        sums.add(number, result);
        if (wrong.failed) return false;
        bad = number;
        wrong = verdict;
        if (!verdict.failed && twice) {
          const auto [at, is_first] = hashes.emplace(number, result.hash);
          differs = !is_first && at->second != result.hash;
          if (differs) wrong = {true, "a second run took other steps"};
          if (!is_first) hashes.erase(at);
        }
        return !wrong.failed;
      });
  sums.print(passed());
  if (wrong.failed) return report(bad, length, wrong, differs, static_cast<u32>(shrink));
  if (path != nullptr) {
    std::ofstream file(path);
    file << "{\"first\": " << first << ", \"seconds\": " << passed() << ", \"worlds\": " << sums.worlds
         << ", \"operations\": " << sums.operations << ", \"steps\": " << sums.steps
         << ", \"threads\": " << sums.threads << ", \"switches\": " << sums.switches << ", \"calls\": " << sums.calls
         << ", \"failed_calls\": " << sums.failed_calls << ", \"nulls\": " << sums.nulls
         << ", \"rests\": " << sums.rests << ", \"children\": " << sums.children << ", \"misuses\": " << sums.misuses
         << ", \"longest_call\": " << sums.longest_call << "}\n";
    if (!file.flush()) return complain(path, "cannot be written");
  }
  return 0;
}

// A world depends on its seed alone. Addresses of the C library's, too, are the same in each run, and no page is there
// that was not touched; and the program's environment says nothing to the allocator, which read it before main. (Where
// the kernel forbids personality(), addresses are others, and steps the same.)
void begin_anew(char** argv) {
  const bool told = getenv("COFFER_CONF") != nullptr || getenv("COFFER_FAKE_PAGE") != nullptr;
  const bool moved = personality(0xffffffff) != ADDR_NO_RANDOMIZE && personality(ADDR_NO_RANDOMIZE) != -1;
  if (!told && !moved) return;
  unsetenv("COFFER_CONF");
  unsetenv("COFFER_FAKE_PAGE");
  execv("/proc/self/exe", argv);
  if (told) std::exit(complain("COFFER_CONF, COFFER_FAKE_PAGE", "are set, and the program cannot begin without them"));
}

// Of address space all worlds have as much; a limit of the shell's, which the heap's reservations go by, is lifted.
void lift_limit() {
  rlimit space;
  if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY) return;
  space.rlim_cur = space.rlim_max;
  if (space.rlim_cur == RLIM_INFINITY && setrlimit(RLIMIT_AS, &space) == 0) return;
  std::exit(complain("ulimit -v", "address space is limited, by which worlds would be others than their seeds say"));
}

int main(int argc, char** argv) {
  begin_anew(argv);
  lift_limit();
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  const test::Arguments arguments(argc, argv);
  if (arguments.given("--help")) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  arguments.expect_only(
      {"--seed", "--worlds", "--seconds", "--jobs", "--length", "--shrink-seconds", "--report", "--case"},
      {"--show", "--twice"});
  Scheduler::make_fibers(2 * kMostThreads + 4);
  if (arguments.given("--show")) {
    std::fputs(to_text(draw(arguments.number("--seed", 1), length_of(arguments))).c_str(), stdout);
    return 0;
  }
  if (const char* const path = arguments.text("--case", nullptr)) return run_case(path);
  return run_seeds(arguments);
}

}  // namespace
}  // namespace coffer::trial

int main(int argc, char** argv) { return coffer::trial::main(argc, argv); }
