/* SPDX-License-Identifier: MIT */
/* What a library that knows an interpreter tells the heap profile: which functions of the interpreted language a call
 * stack runs. Coffer refers to both functions weakly, so that they are there or not; tools/python defines them for
 * Python. Both are called under the lock of the samples: they may not allocate, nor wait for a thread that does. */
#ifndef COFFER_OBSERVE_INTERPRETED_H
#define COFFER_OBSERVE_INTERPRETED_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct coffer_interpreted {
  const char *function, *file; /* UTF-8; they stay where they are */
  unsigned line;               /* 0: not known */
};

/* The call stack of this thread, the last call first, has `count` frames and room for `most`. Puts places of the
 * interpreted language into it, as addresses that are those of no code. Returns the new count. */
__attribute__((weak, visibility("default"))) unsigned coffer_interpreted_stack(uintptr_t* frames, unsigned count,
                                                                               unsigned most);
/* What it has put there. 0: a frame of code. */
__attribute__((weak, visibility("default"))) int coffer_interpreted_place(uintptr_t frame,
                                                                          struct coffer_interpreted* place);

#ifdef __cplusplus
}
#endif

#endif
