// SPDX-License-Identifier: MIT
// qemu's "virt" machine for RISC-V, 32 bits.
#include "board.h"

#define UART ((volatile uint8_t*)0x10000000U)
#define TEST_DEVICE (*(volatile uint32_t*)0x100000U)
#define TIMER_LOW (*(volatile uint32_t*)0x0200BFF8U)
#define TIMER_HIGH (*(volatile uint32_t*)0x0200BFFCU)
#define COMPARE_LOW (*(volatile uint32_t*)0x02004000U)
#define COMPARE_HIGH (*(volatile uint32_t*)0x02004004U)
#define TICKS 5000U  // of 100 ns
#define MIE_TIMER 0x80U
#define MSTATUS_ON 8U
#define MSTATUS_START 0x1880U  // machine mode, interrupts on after mret
#define CAUSE_TIMER 0x80000007U
#define CAUSE_ECALL 11U

// What switch.S saves of a task: x1, x3 to x31, and pc.
enum { FRAME_WORDS = 32, FRAME_PC = 31, STACK_WORDS = 1024 };
static uint32_t g_stacks[2][STACK_WORDS] __attribute__((aligned(16)));
static uint32_t* g_frames[2];
static uint32_t g_current;
static volatile uint32_t g_switches;

static void arm_timer(void) {
  const uint32_t low = TIMER_LOW;
  const uint32_t next = low + TICKS;
  COMPARE_HIGH = 0xFFFFFFFFU;
  COMPARE_LOW = next;
  COMPARE_HIGH = TIMER_HIGH + (next < low ? 1U : 0U);
}

// Called by switch.S with the interrupted task's frame; returns that of the task to go on with.
uint32_t* board_trap(uint32_t* frame, uint32_t cause) {
  if (cause == CAUSE_TIMER) {
    arm_timer();
    g_switches = g_switches + 1U;
  } else if (cause == CAUSE_ECALL) {
    frame[FRAME_PC] += 4U;
  } else {
    board_exit("unexpected trap\n", 1);
  }
  g_frames[g_current] = frame;
  g_current ^= 1U;
  return g_frames[g_current];
}

static uint32_t* new_task(uint32_t* stack, void (*task)(void)) {
  uint32_t* frame = stack + STACK_WORDS - FRAME_WORDS;
  frame[FRAME_PC] = (uint32_t)(uintptr_t)task;
  return frame;
}

// Called by switch.S at start; returns the frame of the first task.
uint32_t* board_main(void) {
  board_start();
  g_frames[0] = new_task(g_stacks[0], board_task_0);
  g_frames[1] = new_task(g_stacks[1], board_task_1);
  arm_timer();
  const uint32_t status = MSTATUS_START;
  const uint32_t timer = MIE_TIMER;
  __asm__ volatile("csrw mstatus, %0" ::"r"(status));
  __asm__ volatile("csrs mie, %0" ::"r"(timer));
  return g_frames[0];
}

uint32_t board_interrupts_off(void) {
  uint32_t status = 0;
  const uint32_t on = MSTATUS_ON;
  __asm__ volatile("csrrc %0, mstatus, %1" : "=r"(status) : "r"(on) : "memory");
  return status & MSTATUS_ON;
}

void board_interrupts_restore(uint32_t were_on) { __asm__ volatile("csrs mstatus, %0" ::"r"(were_on) : "memory"); }

void board_yield(void) { __asm__ volatile("ecall" ::: "memory"); }

uint32_t board_switches(void) { return g_switches; }

_Noreturn void board_exit(const char* text, uint32_t status) {
  for (; *text != '\0'; ++text) {
    *UART = (uint8_t)*text;
  }
  for (;;) {
    TEST_DEVICE = status == 0U ? 0x5555U : (status << 16U) | 0x3333U;
  }
}

// Compilers may call these.
void* memcpy(void* restrict to, const void* restrict from, size_t bytes) {
  uint8_t* out = to;
  const uint8_t* in = from;
  while (bytes > 0U) {
    *out = *in;
    ++out;
    ++in;
    --bytes;
  }
  return to;
}

void* memset(void* to, int value, size_t bytes) {
  for (uint8_t* out = to; bytes > 0U; --bytes) {
    *out = (uint8_t)value;
    ++out;
  }
  return to;
}
