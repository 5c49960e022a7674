// SPDX-License-Identifier: MIT
// calls SPANS ROUNDS: makes SPANS spans of 256-byte blocks that stay in use, then goes ROUNDS times through all that
// scalloc does with a span: taken from the span pool, filled, floating, reusable, empty, back to the pool. For
// flat_calls.py, which counts instructions.
#include <stdlib.h>

enum { kSize = 256, kBlocks = 127 };

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const long spans = atol(arguments[1]);
  const long rounds = atol(arguments[2]);
  for (long i = 0; i < spans * kBlocks; ++i) {
    if (malloc(kSize) == NULL) return 1;
  }
  void* blocks[3 * kBlocks];
  for (long i = 0; i < rounds; ++i) {
    for (int b = 0; b < 3 * kBlocks; ++b) blocks[b] = malloc(kSize);
    for (int b = 0; b < 3 * kBlocks; ++b) free(blocks[b]);
  }
  return 0;
}
