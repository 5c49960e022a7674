// SPDX-License-Identifier: MIT
// Many worlds, each from a seed.
//
//   trial [--seed N] [--worlds N] [--seconds N] [--jobs N] [--length N] [--shrink-seconds N] [--report FILE]
//   trial --case FILE      one world from a text
//   trial --show --seed N  the text of one
//   trial --twice          each world is run twice: the hash of all its steps must be the same
//
// Worlds have the seeds N, N + 1 and so on. The first one that fails ends the trial: it is shrunk and printed.
#include <sys/personality.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
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

using Clock = std::chrono::steady_clock;

struct Sums {
  u64 worlds = 0, operations = 0, steps = 0, calls = 0, failed_calls = 0, nulls = 0, threads = 0, switches = 0,
      rests = 0, children = 0, longest_call = 0, most_yields = 0;
  void add(const Result& one) {
    ++worlds;
    operations += one.operations;
    steps += one.steps;
    calls += one.kernel_calls;
    failed_calls += one.failed_calls;
    nulls += one.nulls;
    threads += one.threads;
    switches += one.switches;
    rests += one.rests;
    children += one.children;
    longest_call = std::max(longest_call, one.longest_call);
    most_yields = std::max(most_yields, one.most_yields);
  }
  void print(double seconds) const {
    std::printf("%" PRIu64 " worlds, %" PRIu64 " operations, %" PRIu64 " steps, %" PRIu64 " threads, %" PRIu64
                " switches, %" PRIu64 " system calls of which %" PRIu64 " failed, %" PRIu64 " NULLs, %" PRIu64
                " looks at rest, %" PRIu64 " child processes; longest call %" PRIu64 " steps, most yields %" PRIu64
                "; %.1f s\n",
                worlds, operations, steps, threads, switches, calls, failed_calls, nulls, rests, children, longest_call,
                most_yields, seconds);
  }
};

int run_case(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  Scene scene;
  std::string wrong = "cannot be read";
  if (!file || !from_text(text.str(), scene, wrong)) {
    std::fprintf(stderr, "trial: %s: %s\n", path, wrong.c_str());
    return 2;
  }
  const auto result = std::make_unique<Result>();
  const Verdict verdict = run_one(scene, result.get());
  std::printf("%s: %s; %" PRIu64 " steps, hash %016" PRIx64 "\n", path,
              verdict.failed ? verdict.how.c_str() : "nothing wrong", result->steps, result->hash);
  return verdict.failed ? 1 : 0;
}

int report(u64 seed, u64 length, const Verdict& verdict, u32 seconds) {
  std::printf("FAILED in the world of seed %" PRIu64 ": %s\nagain: build/test/trial/trial --seed %" PRIu64
              " --worlds 1 --length %" PRIu64 "\n",
              seed, verdict.how.c_str(), seed, length);
  std::fflush(stdout);
  if (seconds == 0) return 1;
  bool cut_short = false;
  const Scene least = shrink(draw(seed, length), seconds, &cut_short);
  const Verdict last = run_one(least, nullptr);
  std::printf("shrunk, to be put into test/trial/cases: it fails by: %s\n%s", last.how.c_str(), to_text(least).c_str());
  if (cut_short) std::printf("# It may become shorter in more time: --shrink-seconds is %u.\n", seconds);
  return 1;
}

int run_seeds(const test::Arguments& arguments) {
  const u64 first = arguments.number("--seed", std::random_device{}());
  const u64 seconds = arguments.number("--seconds", 0);
  const u64 worlds = arguments.number("--worlds", seconds != 0 ? ~u64{0} : 500);
  const u64 length = arguments.number("--length", kLength);
  const bool twice = arguments.given("--twice");
  std::printf("seed %" PRIu64 "\n", first);
  std::fflush(stdout);
  const auto start = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  Sums sums;
  u64 given = 0, bad = 0;
  Verdict wrong;
  std::map<u64, u64> hashes;  // of worlds that ran once
  const u64 runs = twice ? 2 : 1;
  run_all(
      static_cast<u32>(arguments.number("--jobs", 1)),
      [&](Scene& scene, u64& number) {
        if (given >= worlds * runs || (seconds != 0 && passed() > static_cast<double>(seconds))) return false;
        number = first + given++ / runs;
        scene = draw(number, length);
        return true;
      },
      [&](u64 number, const Verdict& verdict, const Result& result) {
        sums.add(result);
        if (wrong.failed) return false;
        bad = number;
        wrong = verdict;
        if (!verdict.failed && twice) {
          const auto [at, is_first] = hashes.emplace(number, result.hash);
          if (!is_first && at->second != result.hash) wrong = {true, "a second run took other steps"};
          if (!is_first) hashes.erase(at);
        }
        return !wrong.failed;
      });
  sums.print(passed());
  if (wrong.failed) return report(bad, length, wrong, static_cast<u32>(arguments.number("--shrink-seconds", 60)));
  if (const char* const path = arguments.text("--report", nullptr)) {
    std::ofstream file(path);
    file << "{\"first\": " << first << ", \"seconds\": " << passed() << ", \"worlds\": " << sums.worlds
         << ", \"operations\": " << sums.operations << ", \"steps\": " << sums.steps
         << ", \"threads\": " << sums.threads << ", \"switches\": " << sums.switches << ", \"calls\": " << sums.calls
         << ", \"failed_calls\": " << sums.failed_calls << ", \"nulls\": " << sums.nulls
         << ", \"rests\": " << sums.rests << ", \"children\": " << sums.children
         << ", \"longest_call\": " << sums.longest_call << "}\n";
  }
  return 0;
}

int main(int argc, char** argv) {
  // Addresses of the C library's, too, are the same in each run; and no page is there that was not touched.
  if (personality(0xffffffff) != ADDR_NO_RANDOMIZE && personality(ADDR_NO_RANDOMIZE) != -1)
    execv("/proc/self/exe", argv);
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  const test::Arguments arguments(argc, argv);
  Scheduler::make_fibers(2 * kMostThreads + 4);
  if (arguments.given("--show")) {
    std::fputs(to_text(draw(arguments.number("--seed", 1), arguments.number("--length", kLength))).c_str(), stdout);
    return 0;
  }
  if (const char* const path = arguments.text("--case", nullptr)) return run_case(path);
  return run_seeds(arguments);
}

}  // namespace
}  // namespace coffer::trial

int main(int argc, char** argv) { return coffer::trial::main(argc, argv); }
