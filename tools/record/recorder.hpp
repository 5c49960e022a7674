// SPDX-License-Identifier: MIT
// The recorder's inside, in the program. It calls nothing that allocates; its memory is the mapping of shared.hpp and
// one private mapping for the threads' states.
#pragma once

#include <time.h>

#include <cstddef>

#include "record/shared.hpp"
#include "trace/record.hpp"

#define RECORD_INLINE inline __attribute__((always_inline))
#define RECORD_UNLIKELY(x) __builtin_expect(!!(x), 0)

namespace coffer::record {

using trace::Op;
class Walker;

// A thread's state. It lies in memory that a fork child finds full of zeros, so that the child's threads come to the
// slow path at their next record. `limit` is where fast records must end. It is nullptr in states that cannot take a
// record: none yet, wiped, or in the middle of one (a signal handler sees that).
struct alignas(64) Thread {
  u8* cursor;
  u8* limit;
  u8* resting;  // what `limit` is between records: real_limit, or kAlwaysSlow
  u8* data;
  ChunkHead* head;
  trace::Base base;
  std::atomic<u32>* owners;  // Table::owners
  const std::atomic<u32>* beat;
  u32 seen_beat;  // at the last stamp
  u32 stale;      // records that may still do without a stamp
  u32 number;
  u32 sequence;
  u8* real_limit;
  u32 index;              // in the table of threads
  u32 one_shot;           // the thread is ending: the state is given back after this record
  std::atomic<u32> next;  // in the list of free states: index + 1
  u64 system_bytes;       // of records of take and give
  const u8* stack_low;
  const u8* stack_high;
  Walker* walker;  // of stacks; nullptr: none was asked for so far
};
inline u8* const kAlwaysSlow = reinterpret_cast<u8*>(1);

// Which thread's record was the last one for a page; see is_fresh.
inline constexpr u32 kOwners = 1u << 15;
inline constexpr u32 kStale = 31;

extern __thread Thread* t_thread;

// The functions that come after the recorder's own.
struct Next {
  void* (*malloc)(std::size_t);
  void (*free)(void*);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*valloc)(std::size_t);
  void* (*pvalloc)(std::size_t);
  void (*free_sized)(void*, std::size_t);
  void (*free_aligned_sized)(void*, std::size_t, std::size_t);
  std::size_t (*malloc_usable_size)(void*);
  int (*fork)();
  void* (*sbrk)(long);
  int (*brk)(void*);
  int (*dlclose)(void*);
  int (*coffer_stats)(void*, std::size_t);  // nullptr in other allocators
  const char* (*coffer_version)();
};
// At first these are functions that resolve and then go on.
extern Next g_next;
extern bool g_use_tsc;
extern Stacks g_stacks;

// Finds the next functions. false: it is being done further up the stack.
bool resolve();
bool is_resolved();
// resolve's part for operator new and delete; nothing in the library without them.
void find_operators();
// Memory for the time until then: dlsym itself may allocate. Never freed.
void* early_alloc(std::size_t size, std::size_t alignment);
bool is_early(const void* block);
std::size_t early_size(const void* block);

// Whether Coffer may be asked for its figures. Never from within a system call of the allocator's: it may hold the
// locks that its figures need.
enum class Asks : u8 { may, never };
// The calling thread's state with room for a record, or nullptr: nothing is recorded now. Keeps errno.
Thread* prepare(Asks asks = Asks::may);
// A record of any kind, from anywhere but the paths below.
void record_event(const trace::Record& record);
// The number of the calling thread's stack, 0 if it cannot be had. May use up the chunk.
u32 stack_number(Thread*& thread, const void* frame);
void emit_stack(Thread*& thread, u32 number, const u64* frames, u32 count);
// Once a process, before its first record. `allocator`: any address in its library.
void bind_system(const void* allocator);
bool start_stacks(Stacks kind, u32 depth);
u64 new_stack_number();

u64 kernel_ns(clockid_t clock = CLOCK_MONOTONIC);

// Stamps; docs/reference/trace.md says why these.
RECORD_INLINE u64 stamp_before() {
#if defined(__x86_64__)
  if (__builtin_expect(g_use_tsc, 1)) return __builtin_ia32_rdtsc();
#endif
  return kernel_ns();
}
RECORD_INLINE u64 stamp_after() {
#if defined(__x86_64__)
  if (__builtin_expect(g_use_tsc, 1)) {
    unsigned processor;
    return __builtin_ia32_rdtscp(&processor);
  }
#endif
  return kernel_ns();
}

// Between these two a signal handler that comes here finds no room, and no half record is ever shown to the collector.
// What a record depends on, cursor and base, is read in between: a handler that came before has moved both. It may also
// have used up the room that was seen, and so may one that interrupted it: kRoom is for four records.
RECORD_INLINE void open_record(Thread* thread) {
  thread->limit = nullptr;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
// Ends what open_record began, with or without a record.
RECORD_INLINE void leave_record(Thread* thread) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread->limit = thread->resting;
}
RECORD_INLINE void close_record(Thread* thread, u8* end) {
  thread->cursor = end;
  // release: the collector's acquire of `used` sees the record's bytes.
  thread->head->used.store(static_cast<u32>(end - thread->data), std::memory_order_release);
  leave_record(thread);
}
RECORD_INLINE bool has_room(const Thread* thread) { return thread->cursor < thread->limit; }

inline std::atomic<u32>& owner_of(const Thread* thread, u64 block) {
  return thread->owners[block >> 12 & (kOwners - 1)];
}
// Whether a record for this block may carry the time of the thread's last stamp: no other thread has had a record for
// its page since, and the stamp is not old. Reading the clock costs more than the rest of a record, and a page mostly
// is one thread's. docs/reference/trace.md says why the order stays right.
RECORD_INLINE bool is_fresh(Thread* thread, u64 block) {
  // relaxed: what matters of `owner` is ordered by the hand-over of the block itself; `beat` is a coarse clock.
  if (owner_of(thread, block).load(std::memory_order_relaxed) != thread->number) return false;
  if (thread->beat->load(std::memory_order_relaxed) != thread->seen_beat) return false;
  return thread->stale-- != 0;
}
// Before a stamp for a record for this block. seq_cst: whoever still found himself the owner did so before the stamp.
inline void own(Thread* thread, u64 block) {
  std::atomic<u32>& owner = owner_of(thread, block);
  if (owner.load(std::memory_order_relaxed) != thread->number) {  // relaxed: see is_fresh
    owner.exchange(thread->number, std::memory_order_seq_cst);
  }
  thread->seen_beat = thread->beat->load(std::memory_order_relaxed);
  thread->stale = kStale;
}

// Instructions between calls, in the libraries that are made for valgrind (counts.cpp). What is executed while a
// Counted lives is not the program's.
#if defined(RECORD_COUNTS)
inline constexpr bool kCounts = true;
#else
inline constexpr bool kCounts = false;
#endif
bool can_count();
void begin_call();
void end_call();
void add_instructions(trace::Record& record);
class Counted {
 public:
  RECORD_INLINE Counted() {
    if constexpr (kCounts) begin_call();
  }
  RECORD_INLINE ~Counted() {
    if constexpr (kCounts) end_call();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
};

// Where the thread's records ended before the allocator was called.
struct Place {
  const u8* cursor;
  u64 system_bytes;
};
RECORD_INLINE Place place() { return {t_thread->cursor, t_thread->system_bytes}; }

// What was recorded since.
RECORD_INLINE u64 bytes_since(const Thread* thread, const Place& seen) {
  return static_cast<u64>(thread->cursor - seen.cursor);
}
// Whether that is only what the allocator took from the system, if anything.
RECORD_INLINE bool only_took(const Thread* thread, const Place& seen) {
  return bytes_since(thread, seen) == thread->system_bytes - seen.system_bytes;
}

// Whether the allocator came here itself with this very block, so that it is recorded already. What it took from the
// system does not count: the block before may be this one, freed.
RECORD_INLINE bool is_recorded(const Thread* thread, const Place& seen, u64 block) {
  return thread->cursor != seen.cursor && thread->base.block == block && !only_took(thread, seen);
}

inline u8 log2_of(std::size_t alignment) { return static_cast<u8>(63 - __builtin_clzll(u64{alignment} | 1)); }

// With stacks it takes every allocation, and no time of its own where the fast one would take none.
__attribute__((noinline)) void note_allocation_slow(Op op, std::size_t size, void* block, u8 log2, const void* frame);
__attribute__((noinline)) void note_free_slow(void* block, std::size_t stated);
// Before and after a realloc of a block.
struct Realloc {
  u64 begun, last_block;
  Place seen;
  u32 stack;
};
Realloc begin_realloc(void* block, const void* frame);
void note_realloc(const Realloc& before, void* block, std::size_t size, void* result);

// Both fast records are one store: a control word that says two bytes of size and four of distance, and these.
constexpr u64 kSizeField = 2u << 7, kDistanceField = 4u << 10;

template <Op kOp>
RECORD_INLINE void note_allocation(const Place& seen, std::size_t size, void* block, u8 log2 = 0) {
  Thread* const thread = t_thread;
  const void* const frame = __builtin_frame_address(0);
  const u64 key = reinterpret_cast<u64>(block);
  if (RECORD_UNLIKELY(is_recorded(thread, seen, key))) return;
  if (RECORD_UNLIKELY(!has_room(thread) || kOp == Op::aligned || size > 0xFFFF || block == nullptr ||
                      g_stacks != Stacks::none || !is_fresh(thread, key))) {
    note_allocation_slow(kOp, size, block, log2, frame);
    return;
  }
  open_record(thread);
  const u64 distance = trace::zigzag(key - thread->base.block);
  if (RECORD_UNLIKELY(distance >> 32 != 0)) {
    leave_record(thread);
    note_allocation_slow(kOp, size, block, log2, frame);
    return;
  }
  u8* const at = thread->cursor;
  const u64 record = static_cast<u64>(kOp) | kSizeField | kDistanceField | size << 16 | distance << 32;
  __builtin_memcpy(at, &record, 8);
  thread->base.block = key;
  close_record(thread, at + 8);
}

// The block is not null; the allocator has not been called yet.
RECORD_INLINE void note_free(void* block, std::size_t stated = 0) {
  Thread* const thread = t_thread;
  const u64 key = reinterpret_cast<u64>(block);
  if (RECORD_UNLIKELY(!has_room(thread) || stated > 0xFFFF || !is_fresh(thread, key))) {
    note_free_slow(block, stated);
    return;
  }
  open_record(thread);
  const u64 distance = trace::zigzag(key - thread->base.block);
  if (RECORD_UNLIKELY(distance >> 32 != 0)) {
    leave_record(thread);
    note_free_slow(block, stated);
    return;
  }
  u8* const at = thread->cursor;
  if (stated == 0) {
    const u64 record = static_cast<u64>(Op::free) | kDistanceField | distance << 16;
    __builtin_memcpy(at, &record, 8);
    thread->base.block = key;
    close_record(thread, at + 6);
  } else {
    const u64 record = static_cast<u64>(Op::free) | kSizeField | kDistanceField | stated << 16 | distance << 32;
    __builtin_memcpy(at, &record, 8);
    thread->base.block = key;
    close_record(thread, at + 8);
  }
}

}  // namespace coffer::record
