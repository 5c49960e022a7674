// SPDX-License-Identifier: MIT
// Rows are loaded and dropped; for each few of them a key stays, on the pages where the rows were.
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void* load_row(int number) { return memset(std::malloc(700), number, 700); }

static void* keep_key(int number) { return memset(std::malloc(700), number, 700); }

int main() {
  std::vector<void*> keys, rows;
  for (int number = 0; number < 40'000; ++number) {
    rows.push_back(load_row(number));
    if (number % 6 == 0) keys.push_back(keep_key(number));
  }
  for (void* row : rows) std::free(row);
  std::puts("loaded");
  const timespec pause = {1, 0};
  nanosleep(&pause, nullptr);
  for (void* key : keys) std::free(key);
  return 0;
}
