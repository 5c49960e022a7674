// SPDX-License-Identifier: MIT
/* The first and only process of a system that runs tests (tools/arch_kernel.py). Each line of /tests: name, number of
 * variables, variables, command, with tabs between. For each one line says the status it ended with: 128 and the signal
 * if one ended it. What it wrote is shown where it failed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { most_words = 64, seconds = 600 };

static void start(char** words, int variables) {
  const int out = open("/tmp/out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(out, 1);
  dup2(out, 2);
  for (int i = 0; i < variables; ++i) putenv(words[i]);
  setsid();
  alarm(seconds);
  execv(words[variables], words + variables);
  _exit(127);
}

static void show(const char* name) {
  FILE* file = fopen(name, "r");
  char line[400];
  while (file && fgets(line, sizeof line, file)) fputs(line, stdout);
  if (file) fclose(file);
}

static void run(char* line) {
  char* words[most_words + 1] = {0};
  int count = 0;
  for (char* word = strtok(line, "\t\n"); word && count < most_words; word = strtok(NULL, "\t\n"))
    words[count++] = word;
  if (count < 3) return;
  const pid_t child = fork();
  if (child == 0) start(words + 2, atoi(words[1]));
  int status = 0;
  waitpid(child, &status, 0);
  kill(-child, SIGKILL);
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
  const int result = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  if (result != 0 && result != 77) show("/tmp/out");
  printf("\nCOFFER-RESULT %s %d\n", words[0], result);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  mount("proc", "/proc", "proc", 0, "");
  mount("sysfs", "/sys", "sysfs", 0, "");
  mount("devtmpfs", "/dev", "devtmpfs", 0, "");
  setenv("PATH", "/bin", 1);
  printf("\nCOFFER-PAGE %ld\n", sysconf(_SC_PAGESIZE));
  FILE* tests = fopen("/tests", "r");
  char line[4096];
  while (tests && fgets(line, sizeof line, tests)) run(line);
  printf("\nCOFFER-END\n");
  sync();
  reboot(RB_POWER_OFF);
  return 0;
}
