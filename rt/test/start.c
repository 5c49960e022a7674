// SPDX-License-Identifier: MIT
// A program's start without a C library, on Linux as qemu-user plays it: RISC-V, PowerPC with 32 bits and
// z/Architecture with 64.
#include "check.h"

int main(int argc, char** argv);

static long call(long number, long a, long b, long c) {
#if defined(__riscv)
  register long a0 __asm__("a0") = a;
  register long a1 __asm__("a1") = b;
  register long a2 __asm__("a2") = c;
  register long a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
  return a0;
#elif defined(__powerpc__)
  register long r0 __asm__("r0") = number;
  register long r3 __asm__("r3") = a;
  register long r4 __asm__("r4") = b;
  register long r5 __asm__("r5") = c;
  __asm__ volatile("sc"
                   : "+r"(r3), "+r"(r0), "+r"(r4), "+r"(r5)::"memory", "cr0", "r6", "r7", "r8", "r9", "r10", "r11",
                     "r12", "ctr");
  return r3;
#elif defined(__s390x__)
  register long r1 __asm__("1") = number;
  register long r2 __asm__("2") = a;
  register long r3 __asm__("3") = b;
  register long r4 __asm__("4") = c;
  __asm__ volatile("svc 0" : "+r"(r2) : "r"(r1), "r"(r3), "r"(r4) : "memory", "cc");
  return r2;
#else
#error "another processor needs its system call here"
#endif
}

#if defined(__riscv)
#define WRITE 64
#define EXIT 93
__asm__(
    ".globl _start\n_start:\n.option push\n.option norelax\nla gp, __global_pointer$\n.option pop\nmv a0, sp\n"
    "andi sp, sp, -16\ncall rt_start\n");
#elif defined(__s390x__)
#define WRITE 4
#define EXIT 1
__asm__(".globl _start\n_start:\nlgr %r2, %r15\naghi %r15, -160\nbrasl %r14, rt_start\n");
#else
#define WRITE 4
#define EXIT 1
__asm__(".globl _start\n_start:\nmr 3, 1\nrlwinm 1, 1, 0, 0, 27\nstwu 1, -64(1)\nbl rt_start\n");
#endif

_Noreturn void rt_exit(int status) {
  for (;;) {
    (void)call(EXIT, status, 0, 0);
  }
}

void rt_put(const char* text) {
  size_t length = 0;
  while (text[length] != '\0') {
    ++length;
  }
  (void)call(WRITE, 1, (long)(intptr_t)text, (long)length);
}

_Noreturn void rt_start(long* stack) { rt_exit(main((int)stack[0], (char**)(void*)(stack + 1))); }

void* memcpy(void* restrict to, const void* restrict from, size_t bytes) {
  unsigned char* out = to;
  const unsigned char* in = from;
  for (size_t i = 0; i < bytes; ++i) {
    out[i] = in[i];
  }
  return to;
}

void* memset(void* to, int value, size_t bytes) {
  unsigned char* out = to;
  for (size_t i = 0; i < bytes; ++i) {
    out[i] = (unsigned char)value;
  }
  return to;
}

int memcmp(const void* left, const void* right, size_t bytes) {
  const unsigned char* a = left;
  const unsigned char* b = right;
  for (size_t i = 0; i < bytes; ++i) {
    if (a[i] != b[i]) {
      return a[i] < b[i] ? -1 : 1;
    }
  }
  return 0;
}

#if defined(__powerpc__)
// What the compiler calls for divisions of 64 bits; elsewhere libgcc has it.
static uint64_t divide(uint64_t number, uint64_t divisor, uint64_t* rest) {
  uint64_t quotient = 0;
  *rest = 0;
  for (int bit = 63; bit >= 0; --bit) {
    *rest = (*rest << 1U) | ((number >> (unsigned)bit) & 1U);
    if (*rest >= divisor) {
      *rest -= divisor;
      quotient |= (uint64_t)1 << (unsigned)bit;
    }
  }
  return quotient;
}

uint64_t __udivdi3(uint64_t number, uint64_t divisor) {
  uint64_t rest = 0;
  return divide(number, divisor, &rest);
}

uint64_t __umoddi3(uint64_t number, uint64_t divisor) {
  uint64_t rest = 0;
  (void)divide(number, divisor, &rest);
  return rest;
}
#endif
