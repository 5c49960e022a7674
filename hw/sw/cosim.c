// cosim REQUESTS ANSWERS SEED CALLS MODEL: the driver against a simulated unit (hw/tb/tb_driver.vhd), through two
// pipes.
//
// MODEL is `knuth`, and each answer and error must be that of coffer-rt's in-band model; or `none`, and blocks must
// only lie in the heap and not overlap. Ends with 0 and a line of counts, or with 1 and what is wrong.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../rt/src/heap.h"
#include "coffer_hw.h"

// Where the simulated memory is, and what it has behind the heap.
#define WINDOW 0x20000000U
#define HEAP 4096U
#define SPARE 16U
#define UNIT 16U
#define BLOCKS 64U

static FILE* g_requests;
static FILE* g_answers;
static unsigned long g_refused;  // accesses that the bus has refused
static unsigned long g_locks;
static unsigned long g_unlocks;
static unsigned long g_told;

static _Noreturn void fail(const char* message, unsigned long number) {
  (void)fprintf(stderr, "cosim: %s (%lu)\n", message, number);
  exit(1);
}

static void expect(int is_right, const char* message, unsigned long number) {
  if (!is_right) {
    fail(message, number);
  }
}

static uint32_t ask(const char* request) {
  char line[64];
  if (fputs(request, g_requests) < 0 || fflush(g_requests) != 0 || fgets(line, sizeof(line), g_answers) == NULL) {
    fail("the simulation has ended", 0);
  }
  uint32_t value = 0;
  if (strncmp(line, "err", 3) == 0) {
    ++g_refused;
  } else if (sscanf(line, "ok %" SCNx32, &value) != 1) {
    fail("no answer of tb_driver's", 0);
  }
  return value;
}

static uint32_t read_bus(void* context, uint32_t offset) {
  (void)context;
  char request[32];
  (void)snprintf(request, sizeof(request), "r %02" PRIx32 "\n", offset);
  return ask(request);
}

static void write_bus(void* context, uint32_t offset, uint32_t value) {
  (void)context;
  char request[32];
  (void)snprintf(request, sizeof(request), "w %02" PRIx32 " %08" PRIx32 "\n", offset, value);
  (void)ask(request);
}

static void take_lock(void* context) {
  (void)context;
  ++g_locks;
}

static void give_lock(void* context) {
  (void)context;
  ++g_unlocks;
}

static void note_error(void* context, enum coffer_rt_error error, const void* block) {
  (void)context;
  (void)error;
  (void)block;
  ++g_told;
}

static const struct coffer_hw_bus bus = {read_bus, write_bus, NULL};

static void* window(uint32_t offset) { return (void*)(uintptr_t)(WINDOW + offset); }

static struct coffer_hw* open_heap(struct coffer_hw* heap, unsigned alignment, int waits) {
  const struct coffer_hw_options options = {.bus = &bus,
                                            .alignment = alignment,
                                            .waits = waits,
                                            .patience = 10000,
                                            .lock = take_lock,
                                            .unlock = give_lock,
                                            .on_error = note_error};
  return coffer_hw_init(heap, NULL, window(0), HEAP + SPARE, &options);
}

// What init must refuse.
static void check_init(void) {
  struct coffer_hw heap;
  struct coffer_hw_options options = {.bus = &bus};
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, NULL) == NULL, "no registers", 0);
  expect(coffer_hw_init(NULL, NULL, window(0), HEAP, &options) == NULL, "no state", 0);
  expect(coffer_hw_init(&heap, NULL, NULL, HEAP, &options) == NULL, "no region", 0);
  expect(coffer_hw_init(&heap, NULL, window(0), 15, &options) == NULL, "a region too small", 0);
  expect(coffer_hw_init(&heap, NULL, window(1), HEAP, &options) != NULL && heap.bus_heap == WINDOW + 4U,
         "a region that begins within a word", 0);
  options.bus_address = WINDOW + 2U;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) == NULL, "an address within a word", 0);
  options.bus_address = UINT32_MAX - 3U;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) == NULL, "beyond the last address", 0);
  options.bus_address = 0;
  options.alignment = 32;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) == NULL, "alignment", 0);
  options.alignment = 16;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) != NULL && coffer_hw_bytes(&heap) == HEAP / 2U,
         "alignment costs what it says", 0);
  options.lock = take_lock;
  expect(coffer_hw_init(&heap, NULL, window(0), HEAP, &options) == NULL, "one hook of two", 0);
}

static struct coffer_rt* make_model(void) {
  static unsigned char region[4U * HEAP];
  memset(region, 0, sizeof(region));
  const struct coffer_rt_options options = {.policy = COFFER_RT_KNUTH};
  struct coffer_rt* model = coffer_rt_init(region, sizeof(region), &options);
  expect(model != NULL && model->bytes >= HEAP, "no model", 0);
  // The hardware's heap is one block.
  model->bytes = HEAP;
  memset(model->base, 0, HEAP);
  model->policy->init(model);
  return model;
}

struct run {
  struct coffer_hw* heap;
  struct coffer_rt* model;  // NULL: none
  unsigned char* blocks[BLOCKS];
  size_t sizes[BLOCKS];
  unsigned char taken[HEAP];
  unsigned long allocations;
  unsigned long refused;
  unsigned long wrong_frees;
};

static size_t block_bytes(size_t size) {
  size_t bytes = UNIT;
  while (bytes < size + 4U) {
    bytes *= 2U;
  }
  return bytes;
}

static void allocate(struct run* run, unsigned slot, size_t size, unsigned long number) {
  unsigned char* block = coffer_hw_alloc(run->heap, size);
  if (run->model != NULL) {
    unsigned char* expected = coffer_rt_alloc(run->model, size);
    expect((block == NULL) == (expected == NULL), "the model and the unit differ in whether there is room", number);
    expect(block == NULL || block - run->heap->heap == expected - run->model->base, "not the model's address", number);
  }
  if (block == NULL) {
    ++run->refused;
    return;
  }
  ++run->allocations;
  const size_t at = (size_t)(block - run->heap->heap) - 4U;
  const size_t bytes = block_bytes(size);
  expect(at + bytes <= HEAP && at % bytes == 0U && (uintptr_t)block % run->heap->options.alignment == 0U,
         "the block lies wrong", number);
  for (size_t i = at; i < at + bytes; ++i) {
    expect(run->taken[i] == 0U, "handed out twice", number);
    run->taken[i] = 1U;
  }
  run->blocks[slot] = block;
  run->sizes[slot] = bytes;
}

static void give_back(struct run* run, unsigned slot, unsigned long number) {
  unsigned char* block = run->blocks[slot];
  expect(coffer_hw_free(run->heap, block) == COFFER_RT_OK, "a free is refused", number);
  if (run->model != NULL) {
    expect(coffer_rt_free(run->model, run->model->base + (block - run->heap->heap)) == COFFER_RT_OK, "the model's free",
           number);
  }
  memset(&run->taken[block - run->heap->heap - 4], 0, run->sizes[slot]);
  run->blocks[slot] = NULL;
}

// A free of anything; the model says what is wrong with it, and what is right is left alone.
static void free_wrongly(struct run* run, size_t offset, unsigned long number) {
  if (run->model == NULL || run->model->policy->usable_size(run->model, run->model->base + offset) != 0U) {
    return;
  }
  const unsigned long told = g_told;
  const enum coffer_rt_error error = coffer_hw_free(run->heap, run->heap->heap + offset);
  const enum coffer_rt_error expected =
      offset < HEAP ? coffer_rt_free(run->model, run->model->base + offset) : COFFER_RT_FOREIGN;
  expect(error == expected && error != COFFER_RT_OK && g_told == told + 1U, "the wrong error", number);
  ++run->wrong_frees;
}

static void run_calls(struct run* run, unsigned seed, unsigned long calls) {
  srand(seed);
  memset(run->blocks, 0, sizeof(run->blocks));
  memset(run->taken, 0, sizeof(run->taken));
  for (unsigned long number = 1; number <= calls; ++number) {
    const unsigned slot = (unsigned)rand() % BLOCKS;
    if (rand() % 8 == 0) {
      free_wrongly(run, (size_t)rand() % HEAP, number);
    } else if (run->blocks[slot] != NULL) {
      give_back(run, slot, number);
    } else {
      allocate(run, slot, (size_t)1 << (unsigned)(rand() % 10), number);
    }
  }
  for (unsigned slot = 0; slot < BLOCKS; ++slot) {
    if (run->blocks[slot] != NULL) {
      give_back(run, slot, calls);
    }
  }
  allocate(run, 0, HEAP - 4U, calls);
  give_back(run, 0, calls);
}

// What is wrong whatever the unit is.
static void check_errors(struct coffer_hw* heap) {
  unsigned char* block = coffer_hw_alloc(heap, 20);
  expect(block != NULL, "an empty heap", 0);
  expect(coffer_hw_free(heap, NULL) == COFFER_RT_OK, "NULL", 0);
  expect(coffer_hw_free(heap, block + 4) == COFFER_RT_BAD, "within a block", 0);
  expect(coffer_hw_free(heap, heap->heap - 1) == COFFER_RT_FOREIGN, "in front of the heap", 0);
  expect(coffer_hw_free(heap, heap->heap + HEAP) == COFFER_RT_FOREIGN, "behind the heap", 0);
  expect(coffer_hw_free(heap, block) == COFFER_RT_OK, "a block", 0);
  expect(coffer_hw_free(heap, block) == COFFER_RT_DOUBLE, "a block twice", 0);
  expect(coffer_hw_alloc(heap, SIZE_MAX) == NULL && coffer_hw_alloc(heap, UINT32_MAX) == NULL, "too much", 0);
  expect(coffer_hw_late(heap) == COFFER_RT_OK, "nothing is late", 0);
  expect(coffer_hw_marks(heap, 3, 1, 2) == COFFER_RT_ARGUMENT, "no such index", 0);
  expect(coffer_hw_marks(heap, 4, 300, 300) == COFFER_RT_ARGUMENT, "no such marks", 0);
}

// Memory refuses: told, nothing hangs, and init mends it.
static void check_faults(struct coffer_hw* heap) {
  unsigned char* block = coffer_hw_alloc(heap, 20);
  (void)ask("d 01\n");
  (void)coffer_hw_free(heap, block);
  expect(coffer_hw_free(heap, block) == COFFER_RT_CORRUPT, "a fault is told", 0);
  expect(coffer_hw_alloc(heap, 20) == NULL, "nothing is given out", 0);
  (void)ask("d 00\n");
  expect(coffer_hw_alloc(heap, 20) == NULL, "nor later", 0);
  expect(open_heap(heap, 4, 0) == heap && coffer_hw_alloc(heap, 20) != NULL, "a new heap", 0);
  coffer_hw_close(heap);
  expect(coffer_hw_alloc(heap, 20) == NULL && coffer_hw_bytes(heap) == 0U, "closed", 0);
  expect(coffer_hw_free(heap, block) == COFFER_RT_ARGUMENT, "closed, and a free", 0);
  struct coffer_hw_options options = {.bus = &bus, .patience = 1};
  // Once asked is too little for an init that cuts nothing, but takes its time.
  expect(coffer_hw_init(heap, NULL, window(0), HEAP, &options) == NULL || heap->is_lost == 0, "patience", 0);
}

int main(int argc, char** argv) {
  if (argc != 6) {
    (void)fprintf(stderr, "usage: cosim REQUESTS ANSWERS SEED CALLS knuth|none\n");
    return 2;
  }
  g_requests = fopen(argv[1], "w");
  g_answers = fopen(argv[2], "r");
  if (g_requests == NULL || g_answers == NULL) {
    fail("the pipes cannot be opened", 0);
  }
  const int has_model = strcmp(argv[5], "knuth") == 0;
  static struct run run;
  struct coffer_hw heap;
  check_init();
  for (int waits = 0; waits < 2; ++waits) {
    expect(open_heap(&heap, waits != 0 ? 16U : 4U, waits) == &heap && coffer_hw_bytes(&heap) == HEAP, "no heap", 0);
    check_errors(&heap);
    expect(open_heap(&heap, waits != 0 ? 16U : 4U, waits) == &heap, "no second heap", 0);
    run.heap = &heap;
    run.model = has_model ? make_model() : NULL;
    run_calls(&run, (unsigned)strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
  }
  check_faults(&heap);
  expect(g_refused == 0U, "the bus has refused an access", g_refused);
  expect(g_locks == g_unlocks && g_locks != 0U, "locks", g_locks - g_unlocks);
  printf("cosim: %lu allocations, %lu refused, %lu wrong frees\n", run.allocations, run.refused, run.wrong_frees);
  return 0;
}
