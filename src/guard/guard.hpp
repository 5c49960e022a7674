// SPDX-License-Identifier: MIT
// Sampled guards: a block that is chosen by chance gets pages of its own, between pages that nobody may touch, so that
// an access beside it is a fault at the very instruction; and once it is freed its own pages may not be touched either.
// The fault is told with the stacks of who allocated, who freed and who touched (report.cpp), and then goes on to the
// program's own handler. GWP-ASan's idea, with blocks of any size up to 1 MiB.
//
//   range    | guard | block's pages | guard | block's pages | guard | ...      apart from the arenas; nobody may touch
//   record   one for each block that lives or was freed lately                  what is not a block's
//   page map the record of each page
//
// A block stands at the begin of its pages or at their end, by chance. What its pages have beside it holds a pattern,
// which is looked at when it is freed. What was freed rests until the range, which is used round and round, comes to it
// again, and for kRest further samples at least.
//
// A pointer into the range is foreign to the arenas, so free, realloc and malloc_usable_size come here where they would
// report a bad pointer, and no path of theirs asks one question more.
#pragma once

#include "base/atomic.hpp"

namespace coffer::guard {

inline constexpr usize kRangeBytes = usize{256} << 20;
inline constexpr usize kLeastRangeBytes = usize{8} << 20;  // where address space is limited
inline constexpr usize kMostSize = usize{1} << 20;         // of a block, and of its alignment
inline constexpr u32 kRecords = 1024;
inline constexpr u32 kMostLive = kRecords / 2;  // each parts three mappings; the kernel allows 65,530
inline constexpr u32 kRest = kRecords / 4;
inline constexpr usize kMostWaste = usize{4} << 20;  // bytes of live blocks' pages that are not the blocks' own
inline constexpr u32 kFrames = 32;

// none: of no block. making: its thread is at work on it. ending: it is being freed. stuck: it is free, and the kernel
// did not take its pages back, which is tried again.
enum class State : u32 { none, making, live, ending, stuck, freed };

struct Stack {
  u32 thread;
  u32 count;
  uptr frames[kFrames];
};

// Who chose it under the lock has it while it is being made, who frees its block while that ends. The state, stored
// last, publishes the rest.
struct Record {
  Atomic<State> state;
  Owned<u32> first_page, pages;
  Owned<uptr> block;
  Owned<usize> size;  // as it was asked for
  Owned<u64> freed_at;
  Stack allocated, freed;
};

// A block of exactly so many bytes, all of them zero; nullptr: there is none now, and any other will do.
void* allocate(usize size, usize alignment);

// Whether the address lies in the range, between blocks or in one.
bool owns(const void* address);

// All report what is not the start of a live block, and abort. kNoSize: the caller named none.
inline constexpr usize kNoSize = ~usize{0};
void deallocate(void* block, usize given);
usize size_of(const char* call, void* block);
// The same; 0: it is not the start of a live block.
usize size_if_live(const void* block);

// Bytes of pages of blocks that live, or whose pages the kernel did not take back: they are charged, and held.
usize held_bytes();
// Bytes of live blocks, as they were asked for.
usize live_bytes();
// Looks at all records, while no other thread is at work; nullptr: all is well, else what is wrong.
const char* find_fault();

// In a fork child. forget_others: lets go of the lock; true: a thread was at work here and vanished. count_anew: counts
// what such threads may have changed and not yet counted; what they were making or freeing stays as it is, and held.
bool forget_others();
void count_anew();

// For report.cpp: the block at an address of the range, or the one nearest to it; nullptr: none is known there.
const Record* find_near(uptr address);

}  // namespace coffer::guard
