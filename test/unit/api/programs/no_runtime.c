// SPDX-License-Identifier: MIT
/* operator new fails in a program without a C++ runtime: one line and an abort, which the test expects. */
#include <stdint.h>

#include "check.h"

extern void* _Znwm(size_t size);
extern void* _ZnwmRKSt9nothrow_t(size_t size, const void* nothrow);
extern void _ZdlPv(void* block);

int main(void) {
  _ZdlPv(opaque(_Znwm(100)));
  CHECK(opaque(_ZnwmRKSt9nothrow_t(PTRDIFF_MAX, "")) == NULL);
  opaque(_Znwm(PTRDIFF_MAX));
  return 1;
}
