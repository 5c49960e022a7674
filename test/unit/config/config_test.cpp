// SPDX-License-Identifier: MIT
// Options as a process gets them: from its environment, with what it says about them on stderr.
#include "config/config.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace coffer::config {
namespace {

struct Outcome {
  std::string output;
  std::string errors;
  int status;
};

std::string read_all(int file) {
  std::string text;
  char buffer[1024];
  for (ssize_t got; (got = read(file, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<usize>(got));
  close(file);
  return text;
}

// The words that run the probe: where it is for another processor, its emulator's come first.
std::vector<std::string> probe_command() {
  std::vector<std::string> words;
  const std::string emulator = CONF_PROBE_EMULATOR;
  for (std::size_t begin = 0; begin < emulator.size();) {
    const std::size_t end = std::min(emulator.find(' ', begin), emulator.size());
    words.push_back(emulator.substr(begin, end - begin));
    begin = end + 1;
  }
  words.push_back(CONF_PROBE);
  return words;
}

// Runs the probe with nothing but these variables in its environment.
Outcome run(std::vector<std::string> variables, const char* argument = nullptr) {
  int output[2];
  int errors[2];
  EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(errors, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::vector<std::string> command = probe_command();
  if (argument != nullptr) command.push_back(argument);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  EXPECT_EQ(posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environment.data()), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(output[1]);
  close(errors[1]);
  Outcome outcome;
  outcome.output = read_all(output[0]);  // little enough that the other pipe does not fill meanwhile
  outcome.errors = read_all(errors[0]);
  EXPECT_EQ(waitpid(child, &outcome.status, 0), child);
  return outcome;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Config, DefaultsWithoutAVariable) {
  const Outcome outcome = run({"PATH=/"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.errors, "");
  EXPECT_EQ(
      outcome.output,
      "arena:16T,slack:64K,empty_fraction:1/"
      "4,span:32K,placement:index,align:multiples,colour:true,free_limit:8M,huge:auto,mixed:auto,shards:0,"
      "reclaimer:true,limit:0,"
      "cgroup:true,share:false,share_signal:0,profile:false,profile_rate:512K,profile_to:,profile_signal:0,"
      "dump_signal:0,leaks:false,guard_sample:0,crash_report:,stats:false,confirm:false,strict:false,help:false\n");
}

TEST(Config, EmptyEnvironmentAndEmptyVariable) {
  EXPECT_EQ(run({}).status, 0);
  const Outcome outcome = run({"COFFER_CONF="});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.errors, "");
}

TEST(Config, ReadsItsVariableAndNoOther) {
  const Outcome outcome = run({"COFFER_CON=slack:1K", "COFFER_CONF=slack:32K,huge:never,", "COFFER_CONFX=slack:2K"});
  EXPECT_EQ(outcome.errors, "");
  EXPECT_TRUE(contains(outcome.output, "slack:32K,")) << outcome.output;
  EXPECT_TRUE(contains(outcome.output, "huge:never,")) << outcome.output;
}

TEST(Config, ComplainsOnceALineEach) {
  const Outcome outcome = run({"COFFER_CONF=nothing:1,slack:x,slack:16K,nothing:2,shards:17,nothing"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.errors,
            "coffer: COFFER_CONF: unknown option \"nothing\"\n"
            "coffer: COFFER_CONF: bad value in \"slack:x\", slack takes a size from 0 to 1G\n"
            "coffer: COFFER_CONF: bad value in \"shards:17\", shards takes a number from 0 to 16\n");
  EXPECT_TRUE(contains(outcome.output, "slack:16K,"));
  EXPECT_TRUE(contains(outcome.output, "shards:0,"));
}

TEST(Config, StrictAborts) {
  // Wherever it stands.
  for (const char* text : {"COFFER_CONF=strict:true,nothing:1", "COFFER_CONF=nothing:1,strict:true"}) {
    const Outcome outcome = run({text});
    EXPECT_TRUE(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGABRT);
    EXPECT_TRUE(contains(outcome.errors, "unknown option \"nothing\""));
    EXPECT_EQ(outcome.output, "");
  }
  EXPECT_EQ(run({"COFFER_CONF=strict:true,slack:1K"}).status, 0);
}

TEST(Config, ConfirmNamesSourcesAndForeignVariables) {
  const std::vector<std::string> foreign = {"MALLOC_ARENA_MAX=1", "GLIBC_TUNABLES=glibc.malloc.check=1"};
  EXPECT_EQ(run(foreign).errors, "");
  const Outcome outcome = run({foreign[0], foreign[1], "COFFER_CONF=confirm:true,slack:32K"});
  EXPECT_TRUE(contains(outcome.errors, "coffer: slack:32K (COFFER_CONF)\n"));
  EXPECT_TRUE(contains(outcome.errors, "coffer: arena:16T (default)\n"));
  EXPECT_TRUE(contains(outcome.errors, "coffer: MALLOC_ARENA_MAX has no meaning"));
  EXPECT_TRUE(contains(outcome.errors, "coffer: GLIBC_TUNABLES has no meaning"));
  EXPECT_FALSE(contains(run({"GLIBC_TUNABLES=glibc.cpu.x=1", "COFFER_CONF=confirm:true"}).errors, "TUNABLES"));
}

TEST(Config, HelpNamesEveryOption) {
  const Outcome outcome = run({"COFFER_CONF=help:true"});
  EXPECT_EQ(outcome.status, 0);
  for (const Option& option : kOptions) {
    EXPECT_TRUE(contains(outcome.errors, std::string("\n  ") + option.name + " "));
    EXPECT_TRUE(contains(outcome.errors, option.help));
  }
}

#ifdef PAPERS_LIBRARY
// A name longer than its column: scalloc's madvise_threshold.
TEST(Config, HelpSeparatesTheLongestNames) {
  const Outcome outcome = run({"LD_PRELOAD=" PAPERS_LIBRARY, "SCALLOC_CONF=help:true"});
  EXPECT_TRUE(contains(outcome.errors, "\n  madvise_threshold 4K..2M "));
  EXPECT_TRUE(contains(outcome.errors, "\n  virtual_span   2M..128M "));
}
#endif

TEST(Config, EnvironmentIsFoundBeforeLibcSetsIt) {
  EXPECT_EQ(run({"A=1", "COFFER_CONF=slack:32K"}, "without").output, "the same\n");
}

TEST(Config, LoadTwiceChangesNothing) {
  load();
  const Options before = options();
  load();
  EXPECT_EQ(options().arena, before.arena);
  EXPECT_EQ(options().slack, before.slack);
}

}  // namespace
}  // namespace coffer::config
