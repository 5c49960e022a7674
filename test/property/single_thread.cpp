// SPDX-License-Identifier: MIT
// Random operation sequences of one thread against the model.
//
//   single_thread [--seed N] [--ops N] [--check-every N] [--shrink-seconds N] [--no-fork]
//
// The sequence runs in a child. When that fails, the sequence is made again up to the failure, cut down, and printed
// as lines of C. --no-fork runs it in this process, for a debugger.
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <random>

#include "property/generator.hpp"
#include "property/model.hpp"
#include "property/shrink.hpp"
#include "support/arguments.hpp"
#include "support/build.hpp"

namespace coffer::test {
namespace {

constexpr unsigned kChildSeconds = 600;
constexpr std::size_t kCheckEachBelow = 2000;  // operations; short sequences are checked after every one

constexpr int kAttempts = 3;

struct Run {
  std::uint64_t seed;
  std::uint64_t operations;
  std::uint64_t check_every;
};

void run_generated(const Run& run, volatile std::uint64_t* progress) {
  Generator generator(run.seed, run.check_every);
  Model model;
  for (std::uint64_t i = 0; i < run.operations; ++i) {
    *progress = i + 1;
    model.apply(generator.next());
  }
  model.finish();
}

void run_recorded(const Operations& operations, volatile std::uint64_t* progress) {
  const bool check_each = operations.size() < kCheckEachBelow;
  Model model;
  for (const Operation& operation : operations) {
    *progress = *progress + 1;
    model.apply(operation);
    if (check_each) model.apply({Kind::check, 0, 0, 0});
  }
  model.finish();
}

int report(const Run& run, const Outcome& outcome, unsigned shrink_seconds) {
  std::printf("FAILED at operation %" PRIu64 " of seed %" PRIu64 ": %s\n", outcome.done, run.seed, outcome.how.c_str());
  Operations operations;
  Generator generator(run.seed, run.check_every);
  for (std::uint64_t i = 0; i < outcome.done; ++i) operations.push_back(generator.next());
  // More than once: which processor runs the test also plays a part.
  const auto replay = [](const Operations& part, bool quiet) {
    Outcome last;
    for (int attempt = 0; attempt < kAttempts && !last.failed; ++attempt) {
      last =
          run_in_child([&](volatile std::uint64_t* progress) { run_recorded(part, progress); }, kChildSeconds, quiet);
    }
    return last;
  };
  if (!replay(operations, true).failed) {
    std::printf("The recorded sequence does not fail again: it depends on more than the operations.\n");
    return 1;
  }
  operations =
      shrink(std::move(operations), [&](const Operations& part) { return replay(part, true); }, shrink_seconds);
  std::printf("Cut down to %zu operations:\n", operations.size());
  for (std::size_t i = 0; i < operations.size() && i < 200; ++i) std::printf("  %s\n", to_text(operations[i]).c_str());
  std::fflush(stdout);
  std::printf("which fails by: %s\n", replay(operations, false).how.c_str());
  return 1;
}

int single_thread(const Arguments& arguments) {
  constexpr std::uint64_t kOperations = kThreadSanitizer ? 300'000 : 10'000'000;
  const Run run = {arguments.number("--seed", std::random_device{}()), arguments.number("--ops", kOperations),
                   arguments.number("--check-every", 50'000)};
  std::printf("seed %" PRIu64 ", %" PRIu64 " operations\n", run.seed, run.operations);
  std::fflush(stdout);
  volatile std::uint64_t progress = 0;
  if (arguments.given("--no-fork")) {
    run_generated(run, &progress);
    return 0;
  }
  const Outcome outcome =
      run_in_child([&](volatile std::uint64_t* shared) { run_generated(run, shared); }, kChildSeconds, false);
  if (!outcome.failed) return 0;
  return report(run, outcome, static_cast<unsigned>(arguments.number("--shrink-seconds", 60)));
}

}  // namespace
}  // namespace coffer::test

int main(int argc, char** argv) { return coffer::test::single_thread(coffer::test::Arguments(argc, argv)); }
