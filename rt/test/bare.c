// SPDX-License-Identifier: MIT
// A test program's start on qemu's "virt" machine for RISC-V, 32 bits, in machine mode: nothing but the processor, a
// UART and a device that ends the machine. rt/example/virt.ld lays it out.
#include "check.h"

#define UART ((volatile uint8_t*)0x10000000U)
#define TEST_DEVICE (*(volatile uint32_t*)0x100000U)

int main(void);

static uint8_t g_stack[16384] __attribute__((aligned(16), used, section(".stack,\"aw\",@nobits#")));

__asm__(
    ".section .text.start,\"ax\"\n.globl _start\n_start:\nla sp, g_stack\nli t0, 16384\nadd sp, sp, t0\ncall rt_start\n"
    ".text\n");

_Noreturn void rt_exit(int status) {
  for (;;) {
    TEST_DEVICE = status == 0 ? 0x5555U : ((uint32_t)status << 16U) | 0x3333U;
  }
}

void rt_put(const char* text) {
  for (; *text != '\0'; ++text) {
    *UART = (uint8_t)*text;
  }
}

// Memory is 0 when the machine starts: .bss needs no clearing.
_Noreturn void rt_start(void) { rt_exit(main()); }

void* memcpy(void* restrict to, const void* restrict from, size_t bytes) {
  uint8_t* out = to;
  const uint8_t* in = from;
  for (; bytes > 0U; --bytes) {
    *out = *in;
    ++out;
    ++in;
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
