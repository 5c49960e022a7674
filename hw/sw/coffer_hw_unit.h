/* SPDX-License-Identifier: MIT */
/* The driver's own: a unit's registers and calls, and the book of live blocks, for its own files. */
#ifndef COFFER_HW_UNIT_H
#define COFFER_HW_UNIT_H

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

#define COFFER_HW_ID 0xC0FFE401U
#define COFFER_HW_HEADER 4U
#define COFFER_HW_REFUSED 0x100U /* of STATUS: memory has refused a transfer */

/* What its files need of each other. All within the lock. */
uint32_t coffer_hw_read(const struct coffer_hw* heap, uint32_t offset);
/* A word of the region, at an offset from the heap's first byte. */
uint32_t coffer_hw_load(const struct coffer_hw* heap, uint32_t at);
void coffer_hw_store(const struct coffer_hw* heap, uint32_t at, uint32_t value);
/* A call, to its end: its status. */
unsigned coffer_hw_call(struct coffer_hw* heap, uint32_t offset, uint32_t argument, uint32_t* answer);
enum coffer_rt_error coffer_hw_error_of(unsigned status);
enum coffer_rt_error coffer_hw_report(const struct coffer_hw* heap, enum coffer_rt_error error, const void* block);
void coffer_hw_lock(const struct coffer_hw* heap);
void coffer_hw_unlock(const struct coffer_hw* heap);

/* Waits till the last allocation's header is in memory: with Fast Return it may come after the answer. */
enum coffer_rt_error coffer_hw_settle(struct coffer_hw* heap);

/* The size of the block that begins at an offset, by its header; 0 if that is none of a live block. After settle. */
uint32_t coffer_hw_size_at(const struct coffer_hw* heap, uint32_t at);

/* The book: does a live block begin at this offset? Only where there is one. */
int coffer_hw_is_live(const struct coffer_hw* heap, uint32_t at);

/* What is wrong with a live block's address, and where it begins. Settles if headers must be read. */
enum coffer_rt_error coffer_hw_find(struct coffer_hw* heap, const void* block, uint32_t* at);

#endif
