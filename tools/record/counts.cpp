// SPDX-License-Identifier: MIT
// How many instructions a thread has executed, as valgrind's tool says (valgrind/count.c). What the program itself
// executed counts: from where one recorded call returned to where the next one came in. So the allocator and
// whatever it calls are left out, but for a few instructions of one that comes back to the recorder by an exported
// name.
#include "record/recorder.hpp"

#if defined(RECORD_COUNTS)
#include <valgrind/valgrind.h>

#include "record/valgrind/count.h"

// Where this library begins, and where its code ends: the linker's names.
extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));
}

namespace coffer::record {

namespace {

// initial-exec, as all of the recorder's.
__thread u64 t_mark;  // the count at the last border between the program and a call
__thread u64 t_gap;   // what the program executed since its last record

// 1 more than there were; 0: nobody counts.
u64 instructions() { return VALGRIND_DO_CLIENT_REQUEST_EXPR(0, COFFER_COUNT, 0, 0, 0, 0, 0); }

}  // namespace

// The recorder's own instructions are not counted at all.
bool can_count() { return VALGRIND_DO_CLIENT_REQUEST_EXPR(0, COFFER_LEAVE_OUT, __ehdr_start, etext, 0, 0, 0) != 0; }

void begin_call() {
  const u64 now = instructions();
  if (now == 0) return;
  t_gap += now - 1 - t_mark;
  t_mark = now - 1;
}

void end_call() {
  const u64 now = instructions();
  if (now != 0) t_mark = now - 1;
}

void add_instructions(trace::Record& record) {
  record.has_instructions = t_mark != 0;
  record.instructions = t_gap;
  t_gap = 0;
}

}  // namespace coffer::record

#else

namespace coffer::record {

bool can_count() { return false; }
void begin_call() {}
void end_call() {}
void add_instructions(trace::Record&) {}

}  // namespace coffer::record

#endif
