// answers POLICY HEAP_BYTES < CALLS > TRACE: asks coffer-rt's in-band model (knuth or estranged) what it answers to
// each call, and writes a trace with these answers (rt/vectors/README.md, with two records more: hw/doc/bench.md).
//
// A call is a line: `a NAME SIZE` allocates, `f NAME` frees, both with a number as the block's name; `g CYCLES` waits;
// `w OFFSET` frees at an offset from the heap's first byte, hexadecimal, where it may be that no live block is: the
// record is left out if one is. A free of a block that could not be allocated is left out too.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../rt/src/heap.h"

#define NO_BLOCK 0xFFFFFFFFU
#define MIN_BLOCK 16U
#define MAX_NAMES (1U << 24U)

struct blocks {
  void** at;  // by name
  size_t count;
};

static unsigned long g_line = 0;

static _Noreturn void fail(const char* message) {
  if (g_line == 0) {
    (void)fprintf(stderr, "answers: %s\n", message);
  } else {
    (void)fprintf(stderr, "answers: line %lu: %s\n", g_line, message);
  }
  exit(1);
}

static struct coffer_rt* make_heap(const char* policy, size_t bytes) {
  const int is_knuth = strcmp(policy, "knuth") == 0;
  if (!is_knuth && strcmp(policy, "estranged") != 0) {
    fail("the policy is knuth or estranged");
  }
  if (bytes < MIN_BLOCK || bytes > ((size_t)1 << 30U) || (bytes & (bytes - 1U)) != 0U) {
    fail("the heap is a power of two from 16 to 2^30");
  }
  const size_t region_bytes = 2U * bytes + 65536U;
  void* region = calloc(1, region_bytes);
  const struct coffer_rt_options options = {.policy = is_knuth ? COFFER_RT_KNUTH : COFFER_RT_ESTRANGED};
  struct coffer_rt* heap = region == NULL ? NULL : coffer_rt_init(region, region_bytes, &options);
  if (heap == NULL || heap->bytes < bytes) {
    fail("no memory for the heap");
  }
  // The hardware's heap is one block.
  heap->bytes = bytes;
  memset(heap->base, 0, bytes);
  heap->policy->init(heap);
  printf("# coffer-rt vectors 1\npolicy %s\nheap %zu\nmin %u\n", policy, bytes, MIN_BLOCK);
  return heap;
}

static unsigned offset_of(const struct coffer_rt* heap, const void* block) {
  return block == NULL ? NO_BLOCK : (unsigned)((const unsigned char*)block - heap->base);
}

static void** place_of(struct blocks* blocks, unsigned long name) {
  if (name >= MAX_NAMES) {
    fail("the name is too large");
  }
  if (name >= blocks->count) {
    const size_t count = 2U * (name + 1U);
    void** grown = realloc(blocks->at, count * sizeof(*grown));
    if (grown == NULL) {
      fail("out of memory");
    }
    memset(&grown[blocks->count], 0, (count - blocks->count) * sizeof(*grown));
    blocks->at = grown;
    blocks->count = count;
  }
  return &blocks->at[name];
}

static void answer_alloc(struct coffer_rt* heap, struct blocks* blocks, unsigned long name, size_t size) {
  void** place = place_of(blocks, name);
  if (*place != NULL) {
    fail("the block has been allocated already");
  }
  *place = coffer_rt_alloc(heap, size);
  printf("a %zu %08x\n", size, offset_of(heap, *place));
}

static void answer_free(struct coffer_rt* heap, struct blocks* blocks, unsigned long name) {
  void** place = place_of(blocks, name);
  if (*place != NULL) {
    printf("f %08x\n", offset_of(heap, *place));
    if (coffer_rt_free(heap, *place) != COFFER_RT_OK) {
      fail("the model refuses a free");
    }
    *place = NULL;
  }
}

static void answer_wrong_free(struct coffer_rt* heap, unsigned offset) {
  if (offset >= heap->bytes) {
    printf("x %08x bad\n", offset);
  } else {
    unsigned char* block = heap->base + offset;
    // A live block's header there, or what looks like one: freeing it would succeed.
    if (heap->policy->usable_size(heap, block) == 0U) {
      printf("x %08x %s\n", offset, coffer_rt_free(heap, block) == COFFER_RT_DOUBLE ? "double" : "bad");
    }
  }
}

static void write_headers(const struct coffer_rt* heap) {
  for (size_t at = 0; at < heap->bytes;) {
    uint32_t header = 0;
    memcpy(&header, heap->base + at, sizeof(header));
    printf("h %08x %08x\n", (unsigned)at, (unsigned)header);
    at += header & ~1U;
  }
}

int main(int argc, char** argv) {
  if (argc != 3) {
    (void)fprintf(stderr, "usage: answers knuth|estranged HEAP_BYTES < CALLS > TRACE\n");
    return 2;
  }
  struct coffer_rt* heap = make_heap(argv[1], strtoul(argv[2], NULL, 10));
  struct blocks blocks = {NULL, 0};
  char line[128];
  while (fgets(line, sizeof(line), stdin) != NULL) {
    unsigned long name = 0;
    unsigned long size = 0;
    int end = 0;
    ++g_line;
    if (sscanf(line, "a %lu %lu %n", &name, &size, &end) == 2 && line[end] == '\0') {
      answer_alloc(heap, &blocks, name, size);
    } else if (sscanf(line, "f %lu %n", &name, &end) == 1 && line[end] == '\0') {
      answer_free(heap, &blocks, name);
    } else if (sscanf(line, "g %lu %n", &size, &end) == 1 && line[end] == '\0') {
      printf("g %lu\n", size);
    } else if (sscanf(line, "w %lx %n", &name, &end) == 1 && line[end] == '\0' && name <= NO_BLOCK) {
      answer_wrong_free(heap, (unsigned)name);
    } else {
      fail("no such call");
    }
  }
  write_headers(heap);
  if (ferror(stdin) != 0 || fflush(stdout) != 0) {
    fail("the trace could not be written");
  }
  free(blocks.at);
  return 0;
}
