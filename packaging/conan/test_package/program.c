/* SPDX-License-Identifier: MIT */
#include <coffer/coffer.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  struct coffer_stats before;
  struct coffer_stats after;
  coffer_stats(&before, sizeof before);
  void *block = malloc(1 << 20);
  coffer_stats(&after, sizeof after);
  const int ours = block && after.live >= before.live + (1 << 20);
  free(block);
  printf("malloc is %s, version %s\n", ours ? "coffer" : "foreign", coffer_version());
  return !ours;
}
