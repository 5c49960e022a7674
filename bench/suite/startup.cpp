// SPDX-License-Identifier: MIT
// What does it cost to start a process with this allocator? The program starts others, which inherit the preloaded
// library: `program`, again and again, for the time; and itself once, allocating nothing, for the memory:
// child_resident_kib with page tables, child_anonymous_kib of it the process's own. An operation is a process; wall
// time is of all of them, phase.median_ns of one, and children_cpu_ns their processor time.
#include <spawn.h>
#include <sys/wait.h>

#include "suite.hpp"

extern char** environ;

namespace {

void run_process(const char* program, const char* argument, int output) {
  char* arguments[] = {const_cast<char*>(program), const_cast<char*>(argument), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output >= 0) posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t child;
  suite::require(posix_spawn(&child, program, &actions, nullptr, arguments, environ) == 0, "cannot start a process");
  int status = 0;
  suite::require(waitpid(child, &status, 0) == child && status == 0, "the started process failed");
  posix_spawn_file_actions_destroy(&actions);
}

// The started process: says what it holds.
int print_memory() {
  char text[4096], line[256];
  bench::read_text("/proc/self/smaps_rollup", text, sizeof text);
  int length = snprintf(line, sizeof line, "\nresident %zu\nanonymous %zu\n", bench::memory_kib(),
                        bench::figure(text, "\nAnonymous:"));
  return write(STDOUT_FILENO, line, static_cast<size_t>(length)) == length ? 0 : 1;
}

// Processor time of all processes that have ended.
uint64_t children_ns() {
  rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  auto seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec;
  auto microseconds = usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
  return static_cast<uint64_t>(seconds) * 1'000'000'000u + static_cast<uint64_t>(microseconds) * 1'000u;
}

int compare(const void* a, const void* b) {
  uint64_t x = *static_cast<const uint64_t*>(a), y = *static_cast<const uint64_t*>(b);
  return x < y ? -1 : x > y;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "child") == 0) return print_memory();
  suite::Run run(argc, argv, "startup", "of no paper", "starting processes that do nothing");
  const char* program = run.text("program", "/bin/true", "the program that is started");
  size_t operations = run.scaled("operations", 1'000, "processes");
  run.begin(1);

  run_process(program, nullptr, -1);
  uint64_t* times = suite::table<uint64_t>(operations);
  uint64_t cpu_start = children_ns();
  run.start();
  for (size_t i = 0; i < operations; ++i) {
    suite::Stopwatch watch;
    run_process(program, nullptr, -1);
    times[i] = watch.ns();
  }
  run.stop();
  uint64_t cpu_ns = children_ns() - cpu_start;
  qsort(times, operations, sizeof times[0], compare);

  int ends[2];
  suite::require(pipe(ends) == 0, "no pipe");
  run_process("/proc/self/exe", "child", ends[1]);
  char text[256];
  ssize_t length = read(ends[0], text, sizeof text - 1);
  suite::require(length > 0, "the started process printed nothing");
  text[length] = 0;
  run.phase("median", times[operations / 2]);
  run.add("children_cpu_ns", static_cast<double>(cpu_ns));
  run.add("child_resident_kib", static_cast<double>(bench::figure(text, "\nresident ")));
  run.add("child_anonymous_kib", static_cast<double>(bench::figure(text, "\nanonymous ")));
  run.report(operations, suite::mix(operations));
}
