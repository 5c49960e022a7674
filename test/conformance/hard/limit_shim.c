// SPDX-License-Identifier: MIT
/* Stands in for a limit of 1 GiB on locked memory where the real one cannot be set: a process whose bounding set lacks
 * CAP_SYS_RESOURCE cannot raise it. Preloaded before the library under test, it answers the two questions by which a
 * program learns of the limit; the kernel then enforces nothing, and the case itself checks that the limit was kept. */
#define _GNU_SOURCE
#include <linux/capability.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <errno.h>
#include <string.h>

static long raw(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "write the system call of this machine"
#endif
}

static long checked(long result) {
  if (result >= 0 || result < -4095) return result;
  errno = (int)-result;
  return -1;
}

long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long values[6];
  for (int i = 0; i < 6; ++i) values[i] = va_arg(list, long);
  va_end(list);
  const long result = checked(raw(number, values[0], values[1], values[2], values[3], values[4], values[5]));
  if (number == SYS_capget && result == 0 && values[1] != 0) {
    struct __user_cap_data_struct* data = (struct __user_cap_data_struct*)values[1];
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    data[0].permitted &= ~(1u << CAP_IPC_LOCK);
  }
  return result;
}

int getrlimit(__rlimit_resource_t resource, struct rlimit* limit) {
  const long result = checked(raw(SYS_prlimit64, 0, (long)resource, 0, (long)limit, 0, 0));
  if (result == 0 && resource == RLIMIT_MEMLOCK) limit->rlim_cur = limit->rlim_max = (rlim_t)1 << 30;
  return (int)result;
}

int getrlimit64(__rlimit_resource_t resource, struct rlimit64* limit) {
  return getrlimit(resource, (struct rlimit*)limit);
}
