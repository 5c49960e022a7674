// SPDX-License-Identifier: MIT
// A list of open files from which one kind of entry is never removed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
  struct entry* next;
  char* name;
  char buffer[1000];
};

static struct entry* g_open;

static struct entry* open_entry(const char* name) {
  struct entry* entry = malloc(sizeof *entry);
  if (entry == NULL) abort();
  entry->name = strdup(name);
  entry->next = g_open;
  g_open = entry;
  return entry;
}

static void close_entry(void) {
  struct entry* entry = g_open;
  g_open = entry->next;
  free(entry->name);
  free(entry);
}

static void serve_file(int number) {
  char name[64];
  snprintf(name, sizeof name, "/data/file-%d", number);
  open_entry(name);
  if (number % 10 == 3) {  // an error: it returns early
    g_open = g_open->next;
    return;
  }
  close_entry();
}

int main(void) {
  for (int number = 0; number < 20000; ++number) serve_file(number);
  puts("served");
  return 0;
}
