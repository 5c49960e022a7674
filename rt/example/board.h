/* SPDX-License-Identifier: MIT */
// What the example needs of a board: two tasks switched by a timer, output, an end.
#ifndef COFFER_RT_EXAMPLE_BOARD_H
#define COFFER_RT_EXAMPLE_BOARD_H

#include <stddef.h>
#include <stdint.h>

// The program's own: called once with interrupts off; then the tasks, which must not return.
void board_start(void);
void board_task_0(void);
void board_task_1(void);

// Returns whether they were on.
uint32_t board_interrupts_off(void);
void board_interrupts_restore(uint32_t were_on);
// Lets the other task run.
void board_yield(void);
// How often the timer has switched tasks.
uint32_t board_switches(void);
_Noreturn void board_exit(const char* text, uint32_t status);

static inline void board_barrier(void) { __asm__ volatile("fence" ::: "memory"); }

#endif
