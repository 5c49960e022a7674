// SPDX-License-Identifier: MIT
// libexec/coffer/retain PROCESS [--stop]: what keeps the blocks of a process alive, for `coffer retainers`. A line when
// the process goes on (with --stop: when it has been stopped), and a line with the result, both JSON. What goes wrong
// is said on stderr, with status 1.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "retain/report.hpp"

namespace coffer::retain {

namespace {

constexpr unsigned kMostThreads = 8;  // memory is read no faster by more

double wall() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double cpu() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int fail(int process, const std::string& problem) {
  std::fprintf(stderr, "process %d: %s\n", process, problem.c_str());
  return 1;
}

// Of the steps, for who wants to make one quicker.
void tell(const char* step, double began) {
  if (std::getenv("COFFER_RETAIN_STEPS") == nullptr) return;
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  std::fprintf(stderr, "%-12s %6.2f s, %6.2f s of processors, %ld MiB\n", step, wall() - began, cpu(),
               used.ru_maxrss / 1024);
}

int run(int process, bool still) {
  const double began = wall();
  Snapshot snapshot;
  std::string problem = snapshot.take(process, still);
  if (!problem.empty()) return fail(process, problem);
  tell("copy", began);
  std::printf("{\"copy\":%d,\"stopped_ms\":%.3f,\"threads\":%zu}\n", snapshot.is_copy() ? 1 : 0,
              1e3 * snapshot.stopped_seconds(), snapshot.threads().size());
  std::fflush(stdout);

  const unsigned cores = std::thread::hardware_concurrency();
  const unsigned threads = cores == 0 ? 1 : cores < kMostThreads ? cores : kMostThreads;
  const Memory memory(snapshot.memory());
  const std::vector<Mapping> mappings = attach::mappings(snapshot.memory());
  Blocks blocks;
  problem = blocks.find(memory, mappings, threads);
  if (!problem.empty()) return fail(process, problem);
  tell("blocks", began);
  const std::vector<Object> objects = find_objects(snapshot.memory(), mappings);
  const Roots roots = find_roots(memory, mappings, objects, snapshot.threads(), blocks);
  tell("roots", began);
  Edges edges;
  if (!find_edges(memory, blocks, threads, &edges)) return fail(process, "it has more than 4,000 million pointers");
  // Nothing more is read from it.
  snapshot.release();
  tell("pointers", began);
  const Reached reached = reach(edges, roots, blocks.count());
  tell("reach", began);
  const Flow flow(edges, roots, reached, blocks.count());
  const Dominators dominators = find_dominators(flow);
  tell("dominators", began);
  const Holders holders = find_holders(edges, roots, reached, blocks.count());
  tell("holders", began);
  const std::string text =
      report({&snapshot, &mappings, &blocks, &roots, &reached, &flow, &dominators, &holders, wall() - began, cpu()});
  tell("groups", began);
  std::puts(text.c_str());
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

}  // namespace coffer::retain

int main(int count, char** arguments) {
  const int process = count > 1 ? std::atoi(arguments[1]) : 0;
  if (process <= 0 || count > 3 || (count == 3 && std::strcmp(arguments[2], "--stop") != 0)) {
    std::fputs("usage: retain PROCESS [--stop]\n", stderr);
    return 2;
  }
  // Whoever started this has an end of its own: then nobody waits for an answer.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  try {
    return coffer::retain::run(process, count == 3);
  } catch (const coffer::attach::Error& error) {  // it has ended
    return coffer::retain::fail(process, error.what());
  } catch (const std::bad_alloc&) {
    return coffer::retain::fail(process, "there is not memory enough to look at it");
  }
}
