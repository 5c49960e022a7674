// SPDX-License-Identifier: MIT
/* The smallest program: having allocated nothing, or a few small blocks if it has an argument, it copies to stdout what
 * the kernel says about its memory. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char text[1 << 16];

static int copy(const char* path) {
  const int file = open(path, O_RDONLY);
  ssize_t got;
  while ((got = read(file, text, sizeof text)) > 0) {
    if (write(1, text, (size_t)got) != got) return 1;
  }
  return close(file);
}

int main(int count, char** values) {
  (void)values;
  for (size_t size = 16; count > 1 && size <= 512; size += 16) {
    char* block = malloc(size);
    if (block == NULL) return 1;
    block[0] = 1;
  }
  return copy("/proc/self/smaps") | copy("/proc/self/status");
}
