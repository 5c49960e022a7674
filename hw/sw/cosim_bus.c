// SPDX-License-Identifier: MIT
// The simulation as a bus: registers and memory through two pipes.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cosim.h"

static FILE* g_requests;
static FILE* g_answers;
struct counts g_counts;

_Noreturn void fail(const char* message, unsigned long number) {
  (void)fprintf(stderr, "cosim: %s (%lu)\n", message, number);
  exit(1);
}

void expect(int is_right, const char* message, unsigned long number) {
  if (!is_right) {
    fail(message, number);
  }
}

void open_pipes(const char* requests, const char* answers) {
  g_requests = fopen(requests, "w");
  g_answers = fopen(answers, "r");
  expect(g_requests != NULL && g_answers != NULL, "the pipes cannot be opened", 0);
}

uint32_t ask(char what, uint32_t place, uint32_t value) {
  char line[64];
  const int is_sent = what == 'w' || what == 's'
                          ? fprintf(g_requests, "%c %08" PRIx32 " %08" PRIx32 "\n", what, place, value)
                          : fprintf(g_requests, "%c %08" PRIx32 "\n", what, place);
  if (is_sent < 0 || fflush(g_requests) != 0 || fgets(line, sizeof(line), g_answers) == NULL) {
    fail("the simulation has ended", 0);
  }
  uint32_t answer = 0;
  if (strncmp(line, "err", 3) == 0) {
    ++g_counts.refused;
  } else if (sscanf(line, "ok %" SCNx32, &answer) != 1) {
    fail("no answer of tb_driver's", 0);
  }
  return answer;
}

static uint32_t read_bus(void* context, uint32_t offset) {
  (void)context;
  return ask('r', offset, 0);
}

static void write_bus(void* context, uint32_t offset, uint32_t value) {
  (void)context;
  (void)ask('w', offset, value);
}

static uint32_t load_bus(void* context, const void* place) {
  (void)context;
  return load(place);
}

static void store_bus(void* context, void* place, uint32_t value) {
  (void)context;
  store(place, value);
}

const struct coffer_hw_bus g_bus = {read_bus, write_bus, NULL, load_bus, store_bus};

void* window(uint32_t offset) { return (void*)(uintptr_t)(WINDOW + offset); }

uint32_t load(const void* place) { return ask('l', (uint32_t)(uintptr_t)place, 0); }

void store(void* place, uint32_t value) { (void)ask('s', (uint32_t)(uintptr_t)place, value); }

static void take_lock(void* context) {
  (void)context;
  ++g_counts.locks;
}

static void give_lock(void* context) {
  (void)context;
  ++g_counts.unlocks;
}

static void note_error(void* context, enum coffer_rt_error error, const void* block) {
  (void)context;
  (void)block;
  ++g_counts.told;
  g_counts.last = error;
}

struct coffer_hw* open_heap(struct coffer_hw* heap, size_t alignment, int waits, void* book) {
  const struct coffer_hw_options options = {.bus = &g_bus,
                                            .alignment = alignment,
                                            .book = book,
                                            .book_bytes = book != NULL ? coffer_hw_book_bytes(HEAP) : 0U,
                                            .waits = waits,
                                            .patience = 10000,
                                            .lock = take_lock,
                                            .unlock = give_lock,
                                            .on_error = note_error};
  return coffer_hw_init(heap, NULL, window(0), HEAP + SPARE - 4U, &options);
}
