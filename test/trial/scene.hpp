// SPDX-License-Identifier: MIT
// A world as data: its options, kernel, schedule, and what its threads do. It is drawn from a seed (grammar.hpp), or
// read from a text, which is how a failing one is kept (cases/).
#pragma once

#include <string>
#include <vector>

#include "trial/kernel.hpp"
#include "trial/scheduler.hpp"

namespace coffer::trial {

inline constexpr u32 kSlots = 4096;
inline constexpr u32 kMostThreads = 12;

// What is done to a slot that has no block for it, or that another thread is at work on, is left out: so any part of a
// program is a program.
enum class Action : u8 {
  // For an empty slot: a block is put there.
  malloc,
  calloc,
  aligned,    // aligned_alloc
  by_handle,  // from the world's heap by handle, if there is one
  // For a full one.
  free,
  free_sized,
  realloc,
  verify,
  // Neither.
  await,  // the slot is full, or nobody can fill it
  start,  // of the thread `slot`, if it never ran
  renew,  // the thread ends, and another one goes on with what it has to do
  sleep,  // for ever, `size` steps from now
  tick,   // time passes: `size` milliseconds
  limit,  // coffer_set_limit(size)
  trim,   // coffer_malloc_trim(size)
  stats,
  check,   // everything rests, and is looked at
  fork,    // now, or by the handler of a signal `size` steps from now
  group,   // the control group's limit is `size` bytes from now on; 0: it has none
  cancel,  // the thread `slot` ends at its next operation, frees some of what it took, and does no more
  exit,    // in a copy of the world, this thread ends the process; size is odd: all others stop where they are
  show,  // `size` steps from now a signal handler of Coffer's runs, wherever the thread is: see Shown (shown.hpp), slot
         // % 4
  handle,  // a heap by handle of `size` bytes, if there was none
  cores,   // threads run on other processors from now on: on 1 + size % 64, by numbers far apart if size is odd
  // For a full one, in a process of its own that must end with a report.
  freed_twice,   // after `size` others were freed in between
  freed_inside,  // a pointer into it
};
inline constexpr u32 kActions = static_cast<u32>(Action::freed_inside) + 1;
extern const char* const kActionNames[kActions];

struct Operation {
  Action action;
  u8 thread;
  u32 slot;
  u64 size;
  u32 alignment_log2 = 0;
};

struct Scene {
  std::string options;  // COFFER_CONF
  u64 page = 4096;
  Kernel kernel;
  Schedule schedule;
  std::vector<Operation> operations;  // each thread does its own, in this order
};

bool has(const Scene& scene, Action action);
std::string to_text(const Scene& scene);
// false: it is none; `wrong` says what.
bool from_text(const std::string& text, Scene& scene, std::string& wrong);

}  // namespace coffer::trial
