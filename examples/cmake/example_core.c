// SPDX-License-Identifier: MIT
/* Coffer beside the C library's malloc: each block goes back to where it came from. */
#include <coffer/coffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  char* ours = coffer_malloc(100);
  char* libc = malloc(100);
  if (ours == NULL || libc == NULL) return 1;
  strcpy(ours, "from coffer_malloc");
  strcpy(libc, "from malloc");
  printf("Coffer %s: %s, %s\n", coffer_version(), ours, libc);
  free(libc);
  coffer_free(ours);
  return 0;
}
