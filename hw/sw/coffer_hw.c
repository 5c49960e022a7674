// SPDX-License-Identifier: MIT
#include "coffer_hw_unit.h"

#define BUSY 1U
#define PATIENCE 1000000U
#define MOST_ALIGNMENT 4096U
#define LEAST_LOG2 4U /* no unit has smaller blocks */

uint32_t coffer_hw_read(const struct coffer_hw* heap, uint32_t offset) {
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

uint32_t coffer_hw_load(const struct coffer_hw* heap, uint32_t at) {
  const struct coffer_hw_bus* bus = heap->options.bus;
  const unsigned char* place = heap->heap + at;
  /* The unit writes it behind the compiler's back. */
  return bus != NULL && bus->load != NULL ? bus->load(bus->context, place)
                                          : *(const volatile uint32_t*)(const void*)place;
}

void coffer_hw_store(const struct coffer_hw* heap, uint32_t at, uint32_t value) {
  const struct coffer_hw_bus* bus = heap->options.bus;
  unsigned char* place = heap->heap + at;
  if (bus != NULL && bus->store != NULL) {
    bus->store(bus->context, place, value);
  } else {
    *(volatile uint32_t*)(void*)place = value;
  }
}

/* Till no call is being served; its status. */
static unsigned wait_for_call(struct coffer_hw* heap) {
  uint32_t state = BUSY;
  for (uint32_t asked = 0; (state & BUSY) != 0U && asked < heap->options.patience; ++asked) {
    state = coffer_hw_read(heap, REG_STATUS);
  }
  if ((state & BUSY) != 0U) {
    heap->is_lost = 1;
    return STATUS_LOST;
  }
  return (state >> 4U) & 7U;
}

unsigned coffer_hw_call(struct coffer_hw* heap, uint32_t offset, uint32_t argument, uint32_t* answer) {
  if (heap->is_lost != 0) {
    return STATUS_LOST;
  }
  write_register(heap, offset, argument);
  if (heap->options.waits != 0) {
    *answer = coffer_hw_read(heap, REG_ANSWER);
    return wait_for_call(heap);
  }
  const unsigned status = wait_for_call(heap);
  *answer = status == STATUS_OK ? coffer_hw_read(heap, REG_ANSWER) : 0U;
  return status;
}

enum coffer_rt_error coffer_hw_error_of(unsigned status) {
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

enum coffer_rt_error coffer_hw_report(const struct coffer_hw* heap, enum coffer_rt_error error, const void* block) {
  if (error != COFFER_RT_OK && heap->options.on_error != NULL) {
    heap->options.on_error(heap->options.context, error, block);
  }
  return error;
}

void coffer_hw_lock(const struct coffer_hw* heap) {
  if (heap->options.lock != NULL) {
    heap->options.lock(heap->options.context);
  }
}

void coffer_hw_unlock(const struct coffer_hw* heap) {
  if (heap->options.unlock != NULL) {
    heap->options.unlock(heap->options.context);
  }
}

/* Where the heap goes within the region, and how large it is; 0 if nothing fits. */
static uint32_t place(struct coffer_hw* heap, unsigned char* region, size_t bytes, uint32_t bus_address) {
  const uint32_t shape = coffer_hw_read(heap, REG_SHAPE);
  const unsigned smallest = shape & 0xFFU;
  const unsigned largest = (shape >> 8U) & 0xFFU;
  const size_t alignment = heap->options.alignment;
  /* What the program gets begins behind the header. */
  const size_t skip = (0U - ((uintptr_t)region + COFFER_HW_HEADER)) & (alignment - 1U);
  if (smallest < 4U || largest > 30U || bytes < skip || bytes - skip < ((size_t)1 << smallest)) {
    return 0U;
  }
  uint32_t size = 1U << smallest;
  for (unsigned k = smallest; k < largest && bytes - skip >= 2U * (size_t)size; ++k) {
    size *= 2U;
  }
  heap->min_log2 = smallest;
  heap->heap = region + skip;
  heap->bus_heap = bus_address + (uint32_t)skip;
  /* The unit's addresses have 32 bits and are those of words. */
  if (heap->bus_heap < bus_address || heap->bus_heap % sizeof(uint32_t) != 0U || heap->bus_heap > UINT32_MAX - size) {
    return 0U;
  }
  return size;
}

static int are_options_good(const struct coffer_hw_options* options, const volatile void* registers, size_t alignment) {
  const struct coffer_hw_bus* bus = options->bus;
  return (bus != NULL ? (bus->load == NULL) == (bus->store == NULL) : registers != NULL) &&
         alignment >= COFFER_HW_HEADER && alignment <= MOST_ALIGNMENT && (alignment & (alignment - 1U)) == 0U &&
         (options->lock == NULL) == (options->unlock == NULL);
}

/* Nothing of the unit's last owner is left. */
static int is_emptied(struct coffer_hw* heap) {
  if (coffer_hw_read(heap, REG_ID) != COFFER_HW_ID) {
    return 0;
  }
  /* Whoever had the unit before may have left a call behind. */
  if (wait_for_call(heap) == STATUS_LOST) {
    return 0;
  }
  write_register(heap, REG_CONTROL, 0U);
  write_register(heap, REG_CLOSE, 0U);
  return wait_for_call(heap) == STATUS_OK;
}

/* Lends a block, to see how its header looks, and that it is seen at all; then the heap begins once more, uncut. */
static int begin(struct coffer_hw* heap, uint32_t size) {
  uint32_t answer = 0;
  if (coffer_hw_call(heap, REG_INIT, size, &answer) != STATUS_OK || coffer_hw_read(heap, REG_HEAP) != size ||
      coffer_hw_call(heap, REG_ALLOC, 0U, &answer) != STATUS_OK) {
    return 0;
  }
  heap->bytes = size;
  const uint32_t at = answer - heap->bus_heap - COFFER_HW_HEADER;
  if (at >= size || coffer_hw_settle(heap) != COFFER_RT_OK) {
    return 0;
  }
  heap->live_bit = coffer_hw_load(heap, at) & 1U;
  return coffer_hw_size_at(heap, at) == (uint32_t)1 << heap->min_log2 &&
         coffer_hw_call(heap, REG_INIT, size, &answer) == STATUS_OK;
}

struct coffer_hw* coffer_hw_init(struct coffer_hw* heap, volatile void* registers, void* region, size_t bytes,
                                 const struct coffer_hw_options* options_or_null) {
  static const struct coffer_hw_options defaults = {0};
  const struct coffer_hw_options* options = options_or_null != NULL ? options_or_null : &defaults;
  const size_t alignment = options->alignment != 0U ? options->alignment : COFFER_HW_HEADER;
  if (heap == NULL || region == NULL || !are_options_good(options, registers, alignment) ||
      (options->bus_address == 0U && (uintptr_t)region > UINT32_MAX)) {
    return NULL;
  }
  heap->registers = (volatile uint32_t*)registers;
  heap->options = *options;
  heap->options.alignment = alignment;
  heap->options.patience = options->patience != 0U ? options->patience : PATIENCE;
  heap->is_lost = 0;
  heap->bytes = 0;
  heap->region_bytes = bytes;
  if (!is_emptied(heap)) {
    return NULL;
  }
  const uint32_t size = place(heap, (unsigned char*)region, bytes,
                              options->bus_address != 0U ? options->bus_address : (uint32_t)(uintptr_t)region);
  const size_t book_bytes = ((size_t)size >> heap->min_log2) / 8U + 1U;
  if (size == 0U || (options->book != NULL && options->book_bytes < book_bytes)) {
    return NULL;
  }
  write_register(heap, REG_BASE, heap->bus_heap);
  write_register(heap, REG_CONTROL, options->waits != 0 ? 1U : 0U);
  if (!begin(heap, size)) {
    heap->bytes = 0;
    return NULL;
  }
  for (size_t i = 0; options->book != NULL && i < book_bytes; ++i) {
    ((unsigned char*)options->book)[i] = 0;
  }
  return heap;
}

size_t coffer_hw_book_bytes(size_t region_bytes) { return region_bytes / ((size_t)8U << LEAST_LOG2) + 1U; }

enum coffer_rt_error coffer_hw_marks(struct coffer_hw* heap, unsigned index, unsigned low, unsigned high) {
  if (index > 31U || low > 255U || high > 255U) {
    return COFFER_RT_ARGUMENT;
  }
  uint32_t answer = 0;
  coffer_hw_lock(heap);
  const unsigned status = coffer_hw_call(heap, REG_MARKS, (high << 16U) | (low << 8U) | index, &answer);
  coffer_hw_unlock(heap);
  return status == STATUS_BAD ? COFFER_RT_ARGUMENT : coffer_hw_error_of(status);
}

enum coffer_rt_error coffer_hw_late(struct coffer_hw* heap) {
  coffer_hw_lock(heap);
  const unsigned status = coffer_hw_read(heap, REG_LATE) & 7U;
  if (status != STATUS_OK) {
    write_register(heap, REG_LATE, 0U);
  }
  coffer_hw_unlock(heap);
  return coffer_hw_error_of(status);
}

void coffer_hw_close(struct coffer_hw* heap) {
  uint32_t answer = 0;
  coffer_hw_lock(heap);
  (void)coffer_hw_call(heap, REG_CLOSE, 0U, &answer);
  heap->bytes = 0;
  coffer_hw_unlock(heap);
}

size_t coffer_hw_bytes(const struct coffer_hw* heap) { return heap->bytes; }
