// SPDX-License-Identifier: MIT
/* A program whose heap tests watch: it holds what is asked for and does what single letters on stdin say, answering
 * each with a line.
 *   a  holds 1 MiB more in blocks of 1,000 bytes     f  frees all of them
 *   k  forks; the child does the same work and then sleeps; its number is the answer
 *   w  the same, but the child sleeps at once
 *   x  runs itself anew by exec                      q  ends */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kBlocks = 1048, kMost = 64 * kBlocks };
static void* blocks[kMost];
static int count;

static void hold(void) {
  for (int i = 0; i < kBlocks && count < kMost; ++i) blocks[count++] = malloc(1000);
}

static void let_go(void) {
  while (count > 0) free(blocks[--count]);
}

int main(int argc, char** argv) {
  (void)argc;
  char command;
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  while (read(STDIN_FILENO, &command, 1) == 1) {
    int answer = 0;
    switch (command) {
      case 'a':
        hold();
        break;
      case 'f':
        let_go();
        break;
      case 'k':
        answer = fork();
        if (answer == 0) {
          usleep(150000); /* so that its first slow path finds a copy due */
          hold();
          sleep(60);
          return 0;
        }
        break;
      case 'w':
        answer = fork();
        if (answer == 0) {
          sleep(60);
          return 0;
        }
        break;
      case 'x':
        execv(argv[0], argv);
        return 1;
      case 'q':
        return 3;
      default:
        continue;
    }
    printf("%c %d\n", command, answer);
  }
  return 0;
}
