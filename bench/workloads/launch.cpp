// SPDX-License-Identifier: MIT
// Wall time of a whole process that allocates nothing, from start to end seen from outside, and its memory. Runs
// itself under the C library's allocator: the library to preload is an argument, set for the started process only. An
// operation is a process; the time is the median of all.
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench.hpp"

namespace {

char environment_preload[4096];
char* environment[] = {environment_preload, nullptr};

void run(const char* program, const char* argument, int output) {
  char* arguments[] = {const_cast<char*>(program), const_cast<char*>(argument), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output >= 0) posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t child;
  bench::require(posix_spawn(&child, program, &actions, nullptr, arguments, environment) == 0, "cannot start");
  int status = 0;
  bench::require(waitpid(child, &status, 0) == child && status == 0, "the started process failed");
  posix_spawn_file_actions_destroy(&actions);
}

// Processor time of all processes started so far.
uint64_t children_ns() {
  rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  auto sum = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec;
  auto microseconds = usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
  return static_cast<uint64_t>(sum) * 1000000000u + static_cast<uint64_t>(microseconds) * 1000u;
}

int compare(const void* a, const void* b) {
  uint64_t x = *static_cast<const uint64_t*>(a), y = *static_cast<const uint64_t*>(b);
  return x < y ? -1 : x > y;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv);
  const char* program = arguments.text("program", nullptr);
  const char* preload = arguments.text("preload", "");
  size_t operations = arguments.number("operations", 100);
  arguments.done();
  bench::require(program != nullptr, "program=PATH is missing");
  bench::require(strlen(preload) < 4000, "the path of the library is too long");
  snprintf(environment_preload, sizeof environment_preload, "LD_PRELOAD=%s", preload);

  for (size_t i = 0; i < operations / 8 + 1; ++i) run(program, "quiet=1", -1);
  uint64_t* times = bench::table<uint64_t>(operations);
  uint64_t cpu_start = children_ns();
  for (size_t i = 0; i < operations; ++i) {
    uint64_t start = bench::clock_ns(CLOCK_MONOTONIC);
    run(program, "quiet=1", -1);
    times[i] = bench::clock_ns(CLOCK_MONOTONIC) - start;
  }
  double cpu = static_cast<double>(children_ns() - cpu_start) / static_cast<double>(operations);
  qsort(times, operations, sizeof times[0], compare);

  int ends[2];
  bench::require(pipe(ends) == 0, "no pipe");
  run(program, "quiet=0", ends[1]);
  char line[4096];
  ssize_t length = read(ends[0], line, sizeof line - 1);
  bench::require(length > 0, "the started process printed nothing");
  line[length] = 0;
  const char* library = strstr(line, "library=");
  bench::require(library != nullptr, "the started process did not name its library");
  size_t peak = bench::figure(line, " peak_kib=");
  double median = static_cast<double>(times[operations / 2]);
  char result[8192];
  int size =
      snprintf(result, sizeof result, "ns_per_op=%.0f cpu_ns_per_op=%.0f operations=%zu peak_kib=%zu end_kib=%zu %s",
               median, cpu, operations, peak, peak, library);
  bench::require(write(STDOUT_FILENO, result, static_cast<size_t>(size)) == size, "cannot write");
}
