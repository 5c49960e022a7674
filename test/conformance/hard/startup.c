/* The smallest program: prints what it occupies, having allocated nothing, as "rss anonymous page_tables" in KiB. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[16384];

static long figure(const char *path, const char *name) {
  const int file = open(path, O_RDONLY);
  ssize_t length = 0;
  ssize_t got;
  while ((got = read(file, text + length, sizeof text - 1 - (size_t)length)) > 0) length += got;
  close(file);
  text[length < 0 ? 0 : length] = '\0';
  const char *place = strstr(text, name);
  return place == NULL ? -1 : strtol(place + strlen(name), NULL, 10);
}

int main(void) {
  char line[100];
  const long rss = figure("/proc/self/smaps_rollup", "\nRss:");
  const long anonymous = figure("/proc/self/smaps_rollup", "\nAnonymous:");
  const long tables = figure("/proc/self/status", "\nVmPTE:");
  const int length = snprintf(line, sizeof line, "%ld %ld %ld\n", rss, anonymous, tables);
  return write(1, line, (size_t)length) == length ? 0 : 1;
}
