// SPDX-License-Identifier: MIT
/* Blocks with a mark each, which a core file of this process must hold: small ones, large ones, and one that grew to
 * another place. Says on stdout that they are there, and waits for the end of stdin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

/* The mark is put together at run time: the program's own text shall not hold it. */
static void* marked(void* block, char kind) {
  if (block == NULL) _exit(2);
  snprintf(block, 32, "%s-%s-%c", "mark", "ofcore", kind);
  return block;
}

int main(void) {
  char byte;
  prctl(PR_SET_PTRACER, -1, 0, 0, 0); /* where only ancestors may look */
  marked(malloc(100), 's');
  marked(malloc(100000), 'm');
  char* grown = marked(malloc(3000000), 'g');
  memset(grown + 32, 7, 2000000);
  marked((char*)malloc(3000000) + 2999000, 'l');
  if (realloc(grown, 20000000) == NULL) return 2;
  if (write(1, "ready\n", 6) != 6) return 1;
  return read(0, &byte, 1) != 0;
}
