// SPDX-License-Identifier: MIT
// Random calls of the driver's, each beside the model and beside a map of what is taken.
#include <stdlib.h>
#include <string.h>

#include "cosim.h"

static size_t block_bytes(size_t size) {
  size_t bytes = UNIT;
  while (bytes < size + 4U) {
    bytes *= 2U;
  }
  return bytes;
}

static unsigned char* in_model(const struct run* run, const unsigned char* block) {
  return run->model->base + (block - run->heap->heap);
}

// A refusal or an address, against the model's.
static void compare(const struct run* run, const unsigned char* block, const unsigned char* expected,
                    unsigned long number) {
  expect((block == NULL) == (expected == NULL), "the model and the unit differ in whether there is room", number);
  expect(block == NULL || block - run->heap->heap == expected - run->model->base, "not the model's address", number);
}

static int fits(const struct run* run, size_t bytes) {
  for (size_t at = 0; at + bytes <= HEAP; at += bytes) {
    if (memchr(&run->taken[at], 1, bytes) == NULL) {
      return 1;
    }
  }
  return 0;
}

// In both memories: what the program leaves behind can look like a header, to the unit and to the model.
static void mark(const struct run* run, unsigned char* place, uint32_t value) {
  store(place, value);
  if (run->model != NULL) {
    memcpy(in_model(run, place), &value, sizeof(value));
  }
}

static void take(struct run* run, unsigned slot, unsigned char* block, size_t size, unsigned long number) {
  const size_t at = (size_t)(block - run->heap->heap) - 4U;
  const size_t bytes = block_bytes(size);
  expect(at + bytes <= HEAP && at % bytes == 0U && (uintptr_t)block % run->heap->options.alignment == 0U,
         "the block lies wrong", number);
  expect(memchr(&run->taken[at], 1, bytes) == NULL, "handed out twice", number);
  memset(&run->taken[at], 1, bytes);
  run->blocks[slot] = block;
  run->sizes[slot] = bytes;
  // What a realloc must keep.
  run->marked[slot] = (uint32_t)rand();
  mark(run, block, run->marked[slot]);
  mark(run, block + bytes - 8U, run->marked[slot]);
}

static void forget(struct run* run, unsigned slot) {
  memset(&run->taken[run->blocks[slot] - run->heap->heap - 4], 0, run->sizes[slot]);
  run->blocks[slot] = NULL;
}

static void allocate(struct run* run, unsigned slot, size_t size, unsigned long number) {
  unsigned char* block = coffer_hw_alloc(run->heap, size);
  if (run->model != NULL) {
    compare(run, block, coffer_rt_alloc(run->model, size), number);
  }
  expect(block != NULL || !run->joins || !fits(run, block_bytes(size)), "refused, though it fits", number);
  if (block == NULL) {
    ++run->refused;
    return;
  }
  ++run->allocations;
  take(run, slot, block, size, number);
}

static void give_back(struct run* run, unsigned slot, unsigned long number) {
  unsigned char* block = run->blocks[slot];
  expect(coffer_hw_usable_size(run->heap, block) == run->sizes[slot] - 4U, "a live block's size", number);
  expect(coffer_hw_free(run->heap, block) == COFFER_RT_OK, "a free is refused", number);
  if (run->model != NULL) {
    expect(coffer_rt_free(run->model, in_model(run, block)) == COFFER_RT_OK, "the model's free", number);
  }
  forget(run, slot);
}

static void resize(struct run* run, unsigned slot, size_t size, unsigned long number) {
  unsigned char* block = run->blocks[slot];
  const size_t old_bytes = run->sizes[slot];
  const uint32_t marked = run->marked[slot];
  unsigned char* moved = coffer_hw_realloc(run->heap, block, size);
  if (run->model != NULL) {
    compare(run, moved, coffer_rt_realloc(run->model, in_model(run, block), size), number);
  }
  expect(block_bytes(size) > old_bytes || moved == block, "what is large enough moves", number);
  expect(
      load(moved != NULL ? moved : block) == marked && load((moved != NULL ? moved : block) + old_bytes - 8U) == marked,
      "a realloc has lost what was there", number);
  ++run->resized;
  if (moved != NULL && moved != block) {
    ++run->moved;
    forget(run, slot);
    take(run, slot, moved, size, number);
  }
}

// What a book says of an address: as coffer_rt.h has it.
static enum coffer_rt_error expected_of(const struct run* run, size_t offset) {
  if (offset >= HEAP) {
    return COFFER_RT_FOREIGN;
  }
  for (unsigned slot = 0; slot < BLOCKS; ++slot) {
    if (run->blocks[slot] == run->heap->heap + offset) {
      return COFFER_RT_OK;
    }
  }
  return offset % UNIT != 4U || run->taken[offset - 4U] != 0U ? COFFER_RT_BAD : COFFER_RT_DOUBLE;
}

// A free of anything; the map or the model says what is wrong with it, and what is right is left alone.
static void free_wrongly(struct run* run, size_t offset, unsigned long number) {
  const int has_book = run->heap->options.book != NULL;
  unsigned char* block = run->heap->heap + offset;
  const unsigned long told = g_counts.told;
  if (has_book ? expected_of(run, offset) == COFFER_RT_OK
               : run->model == NULL || run->model->policy->usable_size(run->model, in_model(run, block)) != 0U) {
    return;
  }
  const enum coffer_rt_error expected = has_book        ? expected_of(run, offset)
                                        : offset < HEAP ? coffer_rt_free(run->model, in_model(run, block))
                                                        : COFFER_RT_FOREIGN;
  expect(!has_book || coffer_hw_usable_size(run->heap, block) == 0U, "the size of no block", number);
  const enum coffer_rt_error error = coffer_hw_free(run->heap, block);
  expect(error == expected && error != COFFER_RT_OK && g_counts.told == told + 1U, "the wrong error", number);
  ++run->wrong_frees;
}

void run_calls(struct run* run, unsigned seed, unsigned long calls) {
  srand(seed);
  memset(run->blocks, 0, sizeof(run->blocks));
  memset(run->taken, 0, sizeof(run->taken));
  for (unsigned long number = 1; number <= calls; ++number) {
    const unsigned slot = (unsigned)rand() % BLOCKS;
    const size_t size = (size_t)1 << (unsigned)(rand() % 10);
    const int what = rand() % 8;
    if (what == 0) {
      free_wrongly(run, (size_t)rand() % HEAP, number);
    } else if (run->blocks[slot] == NULL) {
      allocate(run, slot, size, number);
    } else if (what < 4) {
      resize(run, slot, size, number);
    } else {
      give_back(run, slot, number);
    }
    if (number % 25U == 0U) {
      check_told(run, number);
    }
  }
  for (unsigned slot = 0; slot < BLOCKS; ++slot) {
    if (run->blocks[slot] != NULL) {
      give_back(run, slot, calls);
    }
  }
  check_told(run, calls);
  allocate(run, 0, HEAP - 4U, calls);
  check_told(run, calls);
  give_back(run, 0, calls);
}
