// SPDX-License-Identifier: MIT
// answers POLICY HEAP_BYTES [CACHE_BYTES WAYS LINE_BYTES] < CALLS > TRACE: asks coffer-rt's in-band model (knuth or
// estranged) what it answers to each call, and writes a trace with these answers (rt/vectors/README.md, with two
// records more: hw/doc/bench.md).
//
// A call is a line: `a NAME SIZE` allocates, `f NAME` frees, both with a number as the block's name; `g CYCLES` waits;
// `w OFFSET` frees at an offset from the heap's first byte, hexadecimal, where it may be that no live block is: the
// record is left out if one is. A free of a block that the model has refused is left out too.
//
// `l NAME OFFSET BYTES` and `s NAME OFFSET BYTES` are loads and stores of the program's, in a block, or with NAME 0 at
// the address OFFSET of other memory, which is folded into as many bytes as the heap has. They are left out, or with a
// cache, what it does not have comes through.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../rt/src/heap.h"
#include "cache.h"

#define NO_BLOCK 0xFFFFFFFFU
#define MIN_BLOCK 16U
#define MAX_NAMES (1U << 24U)
#define MAX_NUMBER 2000000000UL  // that the benches read

struct block {
  void* at;
  size_t size;     // as asked for
  int is_refused;  // there was no room for it
};

struct blocks {
  struct block* by_name;
  size_t count;
};

// With a cache: which block has which bytes.
struct memory {
  struct cache* cache;  // NULL: none
  uint32_t heap_bytes;
  uint32_t* owners;  // for each MIN_BLOCK bytes the block's offset for the user, or NO_BLOCK
};

static unsigned long g_line = 0;

// Cycles since the last record.
static unsigned long g_gap = 0;

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

static void put_gap(void) {
  if (g_gap != 0U) {
    printf("g %lu\n", g_gap);
    g_gap = 0;
  }
}

static unsigned offset_of(const struct coffer_rt* heap, const void* block) {
  return block == NULL ? NO_BLOCK : (unsigned)((const unsigned char*)block - heap->base);
}

static struct block* place_of(struct blocks* blocks, unsigned long name) {
  if (name >= blocks->count) {
    const size_t count = 2U * (name + 1U);
    struct block* grown = realloc(blocks->by_name, count * sizeof(*grown));
    if (grown == NULL) {
      fail("out of memory");
    }
    memset(&grown[blocks->count], 0, (count - blocks->count) * sizeof(*grown));
    blocks->by_name = grown;
    blocks->count = count;
  }
  return &blocks->by_name[name];
}

// Of every line that is filled, the trace has the place that the program wanted, and of every word written back its
// own: a block may lie elsewhere in the unit than in the model.
struct wanted {
  uint32_t base;  // in the model
  unsigned block;
  unsigned offset;
};

static struct wanted g_wanted;

static void put_fill(void* context, uint32_t address, uint32_t bytes) {
  (void)context;
  put_gap();
  // An access may reach into a second line.
  const unsigned offset = address > g_wanted.base + g_wanted.offset ? address - g_wanted.base : g_wanted.offset;
  printf("l %08x %08x %u\n", g_wanted.block, offset & ~3U, bytes / 4U);
}

static void put_write_back(void* context, uint32_t address) {
  const struct memory* memory = context;
  put_gap();
  if (address >= memory->heap_bytes) {
    printf("s %08x %08x\n", NO_BLOCK, address - memory->heap_bytes);
    return;
  }
  const uint32_t block = memory->owners[address / MIN_BLOCK];
  if (block != NO_BLOCK && address >= block) {
    printf("s %08x %08x\n", block, address - block);
  }
}

static void own(const struct memory* memory, uint32_t block, size_t size, uint32_t owner) {
  for (uint32_t at = block / MIN_BLOCK; at <= (block + size - 1U) / MIN_BLOCK; ++at) {
    memory->owners[at] = owner;
  }
}

static void answer_access(const struct coffer_rt* heap, const struct memory* memory, const struct blocks* blocks,
                          char what, unsigned long name, unsigned long offset, unsigned long bytes) {
  if (memory->cache == NULL) {
    return;
  }
  if (bytes == 0 || bytes > 4096U) {
    fail("an access has 1 to 4096 bytes");
  }
  uint32_t address = 0;
  if (name == 0) {
    g_wanted = (struct wanted){memory->heap_bytes, NO_BLOCK, (unsigned)(offset % memory->heap_bytes)};
    // At the very end it would leave the memory that there is.
    if (g_wanted.offset + bytes > memory->heap_bytes) {
      return;
    }
    address = memory->heap_bytes + g_wanted.offset;
  } else {
    if (name >= blocks->count || blocks->by_name[name].at == NULL) {
      return;  // it was refused
    }
    const struct block* block = &blocks->by_name[name];
    if (offset >= block->size) {
      fail("an access beyond the block");
    }
    // Functions on strings look further than the end, within a vector's width.
    if (bytes > block->size - offset) {
      bytes = block->size - offset;
    }
    const unsigned at = offset_of(heap, block->at);
    g_wanted = (struct wanted){at, at, (unsigned)offset};
    address = at + g_wanted.offset;
  }
  cache_access(memory->cache, address, (uint32_t)bytes, what == 's');
}

static void answer_alloc(struct coffer_rt* heap, const struct memory* memory, struct blocks* blocks, unsigned long name,
                         size_t size) {
  struct block* place = place_of(blocks, name);
  if (place->at != NULL) {
    fail("the block has been allocated already");
  }
  place->at = coffer_rt_alloc(heap, size);
  place->size = size;
  place->is_refused = place->at == NULL;
  put_gap();
  printf("a %zu %08x\n", size, offset_of(heap, place->at));
  if (memory->cache != NULL && place->at != NULL && size != 0U) {
    own(memory, offset_of(heap, place->at), size, offset_of(heap, place->at));
  }
}

static void answer_free(struct coffer_rt* heap, const struct memory* memory, struct blocks* blocks,
                        unsigned long name) {
  struct block* place = place_of(blocks, name);
  if (place->at != NULL) {
    const unsigned offset = offset_of(heap, place->at);
    if (memory->cache != NULL && place->size != 0U) {
      cache_forget(memory->cache, offset, (uint32_t)place->size);
      own(memory, offset, place->size, NO_BLOCK);
    }
    put_gap();
    printf("f %08x\n", offset);
    if (coffer_rt_free(heap, place->at) != COFFER_RT_OK) {
      fail("the model refuses a free");
    }
    place->at = NULL;
  } else if (place->is_refused == 0) {
    fail("no such block, or freed already");
  } else {
    place->is_refused = 0;
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

static uint32_t number_of(const char* text) {
  char* end = NULL;
  const unsigned long number = strtoul(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || number > NO_BLOCK) {
    fail("a number of bytes or ways is decimal");
  }
  return (uint32_t)number;
}

static void make_memory(struct memory* memory, char** numbers, uint32_t heap_bytes) {
  memory->heap_bytes = heap_bytes;
  memory->owners = malloc((size_t)heap_bytes / MIN_BLOCK * sizeof(*memory->owners));
  if (memory->owners == NULL) {
    fail("out of memory");
  }
  memset(memory->owners, 0xFF, (size_t)heap_bytes / MIN_BLOCK * sizeof(*memory->owners));
  memory->cache = cache_make(number_of(numbers[0]), number_of(numbers[1]), number_of(numbers[2]),
                             (struct cache_below){put_fill, put_write_back, memory});
  if (memory->cache == NULL) {
    fail("a cache has bytes, ways and bytes a line, powers of two; lines of 4 to 128 bytes, at most 16777216 bytes");
  }
}

static void tell_figures(const struct cache* cache) {
  const struct cache_figures figures = cache_figures(cache);
  (void)fprintf(stderr, "accesses %" PRIu64 " misses %" PRIu64 " written_back %" PRIu64 "\n", figures.accesses,
                figures.misses, figures.written_back);
}

// The next field of a line, a number; nothing else may be there.
static unsigned long field(const char** line, int base, unsigned long most, const char* too_large) {
  const char* digits = base == 10 ? "0123456789" : "0123456789abcdef";
  const size_t length = strspn(*line, digits);
  if (length == 0 || ((*line)[length] != ' ' && (*line)[length] != '\0')) {
    fail("no such call");
  }
  errno = 0;
  const unsigned long number = strtoul(*line, NULL, base);
  if (errno != 0 || number > most) {
    fail(too_large);
  }
  *line += length;
  *line += **line == ' ' ? 1 : 0;
  return number;
}

static unsigned long name_field(const char** line) { return field(line, 10, MAX_NAMES - 1U, "the name is too large"); }

static unsigned long number_field(const char** line) { return field(line, 10, MAX_NUMBER, "the number is too large"); }

// One call, without its line's end.
static void answer(struct coffer_rt* heap, const struct memory* memory, struct blocks* blocks, const char* line) {
  const char what = line[0];
  if (what == '\0' || strchr("afglsw", what) == NULL || line[1] != ' ') {
    fail("no such call");
  }
  line += 2;
  if (what == 'w') {
    answer_wrong_free(heap, (unsigned)field(&line, 16, NO_BLOCK, "the address is too large"));
  } else if (what == 'g') {
    g_gap += number_field(&line);
    if (g_gap > MAX_NUMBER) {
      fail("the number is too large");
    }
  } else {
    const unsigned long name = name_field(&line);
    if (what == 'a') {
      answer_alloc(heap, memory, blocks, name, number_field(&line));
    } else if (what == 'f') {
      answer_free(heap, memory, blocks, name);
    } else {
      const unsigned long offset = field(&line, 10, ULONG_MAX, "the offset is too large");
      answer_access(heap, memory, blocks, what, name, offset, number_field(&line));
    }
  }
  if (*line != '\0') {
    fail("no such call");
  }
}

int main(int argc, char** argv) {
  if (argc != 3 && argc != 6) {
    (void)fprintf(stderr, "usage: answers knuth|estranged HEAP_BYTES [CACHE_BYTES WAYS LINE_BYTES] < CALLS > TRACE\n");
    return 2;
  }
  struct coffer_rt* heap = make_heap(argv[1], number_of(argv[2]));
  struct memory memory = {NULL, 0, NULL};
  if (argc == 6) {
    make_memory(&memory, &argv[3], (uint32_t)heap->bytes);
  }
  struct blocks blocks = {NULL, 0};
  char line[128];
  while (fgets(line, sizeof(line), stdin) != NULL) {
    ++g_line;
    const size_t length = strcspn(line, "\n");
    if (length + 1U == sizeof(line)) {
      fail("the line is too long");
    }
    line[length] = '\0';
    answer(heap, &memory, &blocks, line);
  }
  write_headers(heap);
  if (ferror(stdin) != 0 || fflush(stdout) != 0) {
    fail("the trace could not be written");
  }
  if (memory.cache != NULL) {
    tell_figures(memory.cache);
    cache_end(memory.cache);
    free(memory.owners);
  }
  free(blocks.by_name);
  return 0;
}
