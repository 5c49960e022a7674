// SPDX-License-Identifier: MIT
// What sensor.py calls: a reading has to be given back by free_reading.
#include <stdlib.h>
#include <string.h>
#include <time.h>

void* allocate_reading(int bytes);
void free_reading(void* reading);
void poll_readings(int milliseconds);

void* allocate_reading(int bytes) {
  void* reading = malloc((size_t)bytes);
  return reading == NULL ? NULL : memset(reading, 1, (size_t)bytes);
}

void free_reading(void* reading) { free(reading); }

void poll_readings(int milliseconds) {
  struct timespec began, now;
  clock_gettime(CLOCK_MONOTONIC, &began);
  do {
    free_reading(allocate_reading(100));
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - began.tv_sec) * 1000 + (now.tv_nsec - began.tv_nsec) / 1000000 < milliseconds);
}
