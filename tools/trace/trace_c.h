/* SPDX-License-Identifier: MIT */
/* The reader for other languages: libexec/coffer/libcoffer_trace.so. Every function that can fail returns -1 or NULL
   and leaves its reason in coffer_trace_error(), which is the calling thread's. Events are struct Event of reader.hpp.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coffer_trace coffer_trace;

coffer_trace* coffer_trace_open(const char* path);
void coffer_trace_close(coffer_trace* trace);
const char* coffer_trace_error(void);

/* Up to `count` events to `events`; how many there were, 0 at the end. */
int64_t coffer_trace_next(coffer_trace* trace, void* events, size_t count);

/* What is not an event, as one JSON document: head, information, footer, summary of what was read so far, modules,
   stacks, whether the file is complete, and what is missing of it, as far as it was read, in figures and in words.
   Lives until the next call with this trace. */
const char* coffer_trace_describe(coffer_trace* trace);

#ifdef __cplusplus
}
#endif
