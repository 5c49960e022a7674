// SPDX-License-Identifier: MIT
// The vectors of rt/vectors, which the hardware's test benches read too: vectors FOLDER replays them through the
// in-band policies and compares every answer and the final memory; vectors FOLDER write makes them.
#include <string.h>

#include "../src/heap.h"
#include "check.h"

#define HEAP_BYTES 4096U
#define OPERATIONS 400U
#define MAX_LIVE 64U
#define NO_BLOCK 0xFFFFFFFFU

struct script {
  const char* name;
  enum coffer_rt_policy policy;
  uint64_t seed;
  unsigned large;  // how often of 8 a request is large
};

static const struct script g_scripts[] = {
    {"knuth_small", COFFER_RT_KNUTH, 11, 0},
    {"knuth_mixed", COFFER_RT_KNUTH, 12, 3},
    {"estranged_small", COFFER_RT_ESTRANGED, 11, 0},
    {"estranged_mixed", COFFER_RT_ESTRANGED, 12, 3},
};

static unsigned char g_region[HEAP_BYTES + sizeof(struct coffer_rt) + 4096U] __attribute__((aligned(4096)));

static struct coffer_rt* make_heap(enum coffer_rt_policy policy) {
  const struct coffer_rt_options options = {.policy = policy, .alignment = 4096};
  struct coffer_rt* heap = coffer_rt_init(g_region, sizeof(g_region), &options);
  CHECK(heap != NULL && heap->bytes >= HEAP_BYTES);
  heap->bytes = HEAP_BYTES;
  memset(heap->base, 0, HEAP_BYTES);
  heap->policy->init(heap);
  return heap;
}

static unsigned offset_of(const struct coffer_rt* heap, const void* block) {
  return block == NULL ? NO_BLOCK : (unsigned)((const unsigned char*)block - heap->base);
}

static size_t random_request(const struct script* script, uint64_t* state) {
  const bool is_large = rt_random(state) % 8U < script->large;
  return (size_t)(rt_random(state) % (is_large ? 600U : 60U));
}

// The block headers at the end: address and header word of each block, in order of address.
static void write_headers(FILE* out, const struct coffer_rt* heap) {
  for (size_t at = 0; at < HEAP_BYTES;) {
    uint32_t header = 0;
    memcpy(&header, heap->base + at, sizeof(header));
    (void)fprintf(out, "h %08x %08x\n", (unsigned)at, (unsigned)header);
    at += header & ~1U;
  }
}

static void write_vectors(const struct script* script, FILE* out) {
  struct coffer_rt* heap = make_heap(script->policy);
  void* live[MAX_LIVE];
  size_t count = 0;
  uint64_t state = script->seed;
  (void)fprintf(out, "# coffer-rt vectors 1\npolicy %s\nheap %u\nmin %u\n",
                script->policy == COFFER_RT_KNUTH ? "knuth" : "estranged", HEAP_BYTES, 16U);
  for (unsigned i = 0; i < OPERATIONS; ++i) {
    const bool wants_more = rt_random(&state) % 16U < ((i / 60U) % 2U == 0U ? 11U : 5U);
    if ((wants_more && count < MAX_LIVE) || count == 0U) {
      const size_t size = random_request(script, &state);
      void* block = coffer_rt_alloc(heap, size);
      (void)fprintf(out, "a %zu %08x\n", size, offset_of(heap, block));
      if (block != NULL) {
        live[count] = block;
        ++count;
      }
    } else {
      const size_t i_freed = (size_t)(rt_random(&state) % count);
      (void)fprintf(out, "f %08x\n", offset_of(heap, live[i_freed]));
      CHECK(coffer_rt_free(heap, live[i_freed]) == COFFER_RT_OK);
      --count;
      live[i_freed] = live[count];
    }
  }
  write_headers(out, heap);
}

static unsigned replay(const struct script* script, FILE* in) {
  struct coffer_rt* heap = make_heap(script->policy);
  char line[128];
  char name[32];
  unsigned lines = 0;
  while (fgets(line, sizeof(line), in) != NULL) {
    unsigned a = 0;
    unsigned b = 0;
    ++lines;
    if (line[0] == 'a' && sscanf(line, "a %u %x", &a, &b) == 2) {
      CHECK(offset_of(heap, coffer_rt_alloc(heap, a)) == b);
    } else if (line[0] == 'f' && sscanf(line, "f %x", &a) == 1) {
      CHECK(coffer_rt_free(heap, heap->base + a) == COFFER_RT_OK);
    } else if (sscanf(line, "h %x %x", &a, &b) == 2 && line[1] == ' ') {
      uint32_t header = 0;
      memcpy(&header, heap->base + a, sizeof(header));
      CHECK(header == b);
    } else {
      CHECK(line[0] == '#' || sscanf(line, "policy %31s", name) == 1 || sscanf(line, "heap %u", &a) == 1 ||
            sscanf(line, "min %u", &a) == 1);
    }
    CHECK(coffer_rt_check(heap) == COFFER_RT_OK);
  }
  return lines;
}

int main(int argc, char** argv) {
  CHECK(argc > 1);
  for (size_t i = 0; i < sizeof(g_scripts) / sizeof(g_scripts[0]); ++i) {
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s.txt", argv[1], g_scripts[i].name);
    FILE* file = fopen(path, argc > 2 ? "w" : "r");
    CHECK(file != NULL);
    if (argc > 2) {
      write_vectors(&g_scripts[i], file);
    } else {
      CHECK(replay(&g_scripts[i], file) > OPERATIONS);
    }
    CHECK(fclose(file) == 0);
  }
  rt_put("vectors agree\n");
  return 0;
}
