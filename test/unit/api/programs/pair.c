/* SPDX-License-Identifier: MIT */
/* Makes as many pairs of malloc and free as its argument says: for a count of their instructions (tools/test_arch.py).
 */
#include <stdlib.h>

int main(int count, char** arguments) {
  const long pairs = count > 1 ? strtol(arguments[1], NULL, 10) : 0;
  for (long i = 0; i < pairs; ++i) {
    void* block = malloc(64);
    __asm__ volatile("" : "+r"(block) : : "memory");
    free(block);
  }
  return 0;
}
