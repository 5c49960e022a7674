// SPDX-License-Identifier: MIT
// attach_tracer PROCESS: traces its first thread, as a debugger does, until it is ended.
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc != 2 || ptrace(PTRACE_SEIZE, (pid_t)atoi(argv[1]), NULL, NULL) != 0) return 1;
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}
