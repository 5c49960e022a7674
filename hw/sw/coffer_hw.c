#include "coffer_hw.h"

/* The registers, as hw/rtl/coffer_hw.vhd numbers them. */
enum {
  REG_ID = 0x00,
  REG_SHAPE = 0x04,
  REG_CONTROL = 0x08,
  REG_BASE = 0x0C,
  REG_STATUS = 0x10,
  REG_ANSWER = 0x14,
  REG_LATE = 0x18,
  REG_HEAP = 0x1C,
  REG_INIT = 0x20,
  REG_ALLOC = 0x24,
  REG_FREE = 0x28,
  REG_MARKS = 0x2C,
  REG_CLOSE = 0x30
};

enum { STATUS_OK, STATUS_FULL, STATUS_BAD, STATUS_DOUBLE, STATUS_CLOSED, STATUS_FAULT, STATUS_LOST = 7 };

#define ID 0xC0FFE401U
#define BUSY 1U
#define HEADER 4U
#define PATIENCE 1000000U

static uint32_t read_register(const struct coffer_hw* heap, uint32_t offset) {
  const struct coffer_hw_bus* bus = heap->options.bus;
  return bus != NULL ? bus->read(bus->context, offset) : heap->registers[offset / sizeof(uint32_t)];
}

static void write_register(const struct coffer_hw* heap, uint32_t offset, uint32_t value) {
  const struct coffer_hw_bus* bus = heap->options.bus;
  if (bus != NULL) {
    bus->write(bus->context, offset, value);
  } else {
    heap->registers[offset / sizeof(uint32_t)] = value;
  }
}

/* Till no call is being served; its status. */
static unsigned wait_for_call(struct coffer_hw* heap) {
  uint32_t state = BUSY;
  for (uint32_t asked = 0; (state & BUSY) != 0U && asked < heap->options.patience; ++asked) {
    state = read_register(heap, REG_STATUS);
  }
  if ((state & BUSY) != 0U) {
    heap->is_lost = 1;
    return STATUS_LOST;
  }
  return (state >> 4U) & 7U;
}

static unsigned call(struct coffer_hw* heap, uint32_t offset, uint32_t argument, uint32_t* answer) {
  if (heap->is_lost != 0) {
    return STATUS_LOST;
  }
  write_register(heap, offset, argument);
  if (heap->options.waits != 0) {
    *answer = read_register(heap, REG_ANSWER);
    return wait_for_call(heap);
  }
  const unsigned status = wait_for_call(heap);
  *answer = status == STATUS_OK ? read_register(heap, REG_ANSWER) : 0U;
  return status;
}

static enum coffer_rt_error error_of(unsigned status) {
  switch (status) {
    case STATUS_OK:
      return COFFER_RT_OK;
    case STATUS_BAD:
      return COFFER_RT_BAD;
    case STATUS_DOUBLE:
      return COFFER_RT_DOUBLE;
    case STATUS_CLOSED:
      return COFFER_RT_ARGUMENT;
    default:
      return COFFER_RT_CORRUPT;
  }
}

static enum coffer_rt_error report(const struct coffer_hw* heap, enum coffer_rt_error error, const void* block) {
  if (error != COFFER_RT_OK && heap->options.on_error != NULL) {
    heap->options.on_error(heap->options.context, error, block);
  }
  return error;
}

static void lock(const struct coffer_hw* heap) {
  if (heap->options.lock != NULL) {
    heap->options.lock(heap->options.context);
  }
}

static void unlock(const struct coffer_hw* heap) {
  if (heap->options.unlock != NULL) {
    heap->options.unlock(heap->options.context);
  }
}

/* Where the heap goes within the region, and how large it is; 0 if nothing fits. */
static uint32_t place(struct coffer_hw* heap, unsigned char* region, size_t bytes, uint32_t bus_address) {
  const uint32_t shape = read_register(heap, REG_SHAPE);
  const unsigned smallest = shape & 0xFFU;
  const unsigned largest = (shape >> 8U) & 0xFFU;
  const unsigned alignment = heap->options.alignment;
  /* What the program gets begins behind the header. */
  const size_t skip = (0U - ((uintptr_t)region + HEADER)) & (alignment - 1U);
  if (smallest < 4U || largest > 30U || bytes < skip || bytes - skip < ((size_t)1 << smallest)) {
    return 0U;
  }
  uint32_t size = 1U << smallest;
  for (unsigned k = smallest; k < largest && bytes - skip >= 2U * (size_t)size; ++k) {
    size *= 2U;
  }
  heap->heap = region + skip;
  heap->bus_heap = bus_address + (uint32_t)skip;
  /* The unit's addresses have 32 bits and are those of words. */
  if (heap->bus_heap < bus_address || heap->bus_heap % sizeof(uint32_t) != 0U || heap->bus_heap > UINT32_MAX - size) {
    return 0U;
  }
  return size;
}

struct coffer_hw* coffer_hw_init(struct coffer_hw* heap, volatile void* registers, void* region, size_t bytes,
                                 const struct coffer_hw_options* options_or_null) {
  static const struct coffer_hw_options defaults = {0};
  const struct coffer_hw_options* options = options_or_null != NULL ? options_or_null : &defaults;
  const unsigned alignment = options->alignment != 0U ? options->alignment : HEADER;
  const int is_mapped = options->bus == NULL;
  if (heap == NULL || region == NULL || (is_mapped && registers == NULL) ||
      (alignment != 4U && alignment != 8U && alignment != 16U) ||
      (options->lock == NULL) != (options->unlock == NULL) ||
      (options->bus_address == 0U && (uintptr_t)region > UINT32_MAX)) {
    return NULL;
  }
  heap->registers = (volatile uint32_t*)registers;
  heap->options = *options;
  heap->options.alignment = alignment;
  heap->options.patience = options->patience != 0U ? options->patience : PATIENCE;
  heap->is_lost = 0;
  heap->bytes = 0;
  if (read_register(heap, REG_ID) != ID) {
    return NULL;
  }
  /* Whoever had the unit before may have left a call behind. */
  if (wait_for_call(heap) == STATUS_LOST) {
    return NULL;
  }
  write_register(heap, REG_CONTROL, 0U);
  write_register(heap, REG_CLOSE, 0U);
  if (wait_for_call(heap) != STATUS_OK) {
    return NULL;
  }
  const uint32_t size = place(heap, (unsigned char*)region, bytes,
                              options->bus_address != 0U ? options->bus_address : (uint32_t)(uintptr_t)region);
  if (size == 0U) {
    return NULL;
  }
  write_register(heap, REG_BASE, heap->bus_heap);
  write_register(heap, REG_CONTROL, options->waits != 0 ? 1U : 0U);
  uint32_t answer = 0;
  if (call(heap, REG_INIT, size, &answer) != STATUS_OK || read_register(heap, REG_HEAP) != size) {
    return NULL;
  }
  heap->bytes = size;
  return heap;
}

void* coffer_hw_alloc(struct coffer_hw* heap, size_t size) {
  unsigned char* block = NULL;
  /* More than a register holds is more than any heap has. */
  if (size <= UINT32_MAX) {
    uint32_t answer = 0;
    lock(heap);
    const unsigned status = call(heap, REG_ALLOC, (uint32_t)size, &answer);
    if (status == STATUS_OK) {
      block = heap->heap + (answer - heap->bus_heap);
    } else if (status != STATUS_FULL) {
      (void)report(heap, error_of(status), NULL);
    } else {
      /* There is no room: NULL says it. */
    }
    unlock(heap);
  }
  return block;
}

enum coffer_rt_error coffer_hw_free(struct coffer_hw* heap, void* block) {
  if (block == NULL) {
    return COFFER_RT_OK;
  }
  enum coffer_rt_error error = COFFER_RT_FOREIGN;
  const uintptr_t offset = (uintptr_t)block - (uintptr_t)heap->heap;
  lock(heap);
  if (heap->is_lost != 0) {
    error = COFFER_RT_CORRUPT;
  } else if (heap->bytes == 0U) {
    error = COFFER_RT_ARGUMENT;
  } else if (offset < heap->bytes) {
    uint32_t answer = 0;
    error = error_of(call(heap, REG_FREE, heap->bus_heap + (uint32_t)offset, &answer));
  } else {
    /* Foreign: not asked. */
  }
  (void)report(heap, error, block);
  unlock(heap);
  return error;
}

enum coffer_rt_error coffer_hw_late(struct coffer_hw* heap) {
  lock(heap);
  const unsigned status = read_register(heap, REG_LATE) & 7U;
  if (status != STATUS_OK) {
    write_register(heap, REG_LATE, 0U);
  }
  unlock(heap);
  return error_of(status);
}

enum coffer_rt_error coffer_hw_marks(struct coffer_hw* heap, unsigned index, unsigned low, unsigned high) {
  if (index > 31U || low > 255U || high > 255U) {
    return COFFER_RT_ARGUMENT;
  }
  uint32_t answer = 0;
  lock(heap);
  const unsigned status = call(heap, REG_MARKS, (high << 16U) | (low << 8U) | index, &answer);
  unlock(heap);
  return status == STATUS_BAD ? COFFER_RT_ARGUMENT : error_of(status);
}

void coffer_hw_close(struct coffer_hw* heap) {
  uint32_t answer = 0;
  lock(heap);
  (void)call(heap, REG_CLOSE, 0U, &answer);
  heap->bytes = 0;
  unlock(heap);
}

size_t coffer_hw_bytes(const struct coffer_hw* heap) { return heap->bytes; }
