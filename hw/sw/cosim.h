/* SPDX-License-Identifier: MIT */
// What the parts of the program beside the simulation share (cosim.c says what it is).
#ifndef COFFER_HW_COSIM_H
#define COFFER_HW_COSIM_H

#include <stddef.h>
#include <stdint.h>

#include "../../rt/src/heap.h"
#include "coffer_hw.h"

// Where the simulated memory is, how large a heap fits, and what it has behind it for alignment.
#define WINDOW 0x20000000U
#define HEAP 4096U
#define SPARE 4096U
#define UNIT 16U
#define BLOCKS 64U

// What the unit and the driver have said so far.
struct counts {
  unsigned long refused;  // accesses that the bus has refused
  unsigned long locks;
  unsigned long unlocks;
  unsigned long told;
  enum coffer_rt_error last;  // of those told
};
extern struct counts g_counts;

_Noreturn void fail(const char* message, unsigned long number);
void expect(int is_right, const char* message, unsigned long number);

// The pipes to the simulation, and a request of hw/tb/tb_driver.vhd with its answer.
void open_pipes(const char* requests, const char* answers);
uint32_t ask(char what, uint32_t place, uint32_t value);

extern const struct coffer_hw_bus g_bus;
void* window(uint32_t offset);
uint32_t load(const void* place);
void store(void* place, uint32_t value);

// A heap of HEAP bytes; with a book if there is one.
struct coffer_hw* open_heap(struct coffer_hw* heap, size_t alignment, int waits, void* book);

// Random calls, of which this knows what is live.
struct run {
  struct coffer_hw* heap;
  struct coffer_rt* model;  // NULL: none
  int joins;                // the unit refuses only what does not fit
  unsigned char* blocks[BLOCKS];
  size_t sizes[BLOCKS];     // with the header
  uint32_t marked[BLOCKS];  // what its first and last word hold
  unsigned char taken[HEAP];
  unsigned long allocations, refused, wrong_frees, resized, moved;
};
void run_calls(struct run* run, unsigned seed, unsigned long calls);

// cosim_tell.c: what the unit tells of itself, at some moment of the run, and when it or the program is wrong.
void check_told(const struct run* run, unsigned long number);
void check_book(struct coffer_hw* heap);
void check_aligned(void);

#endif
