// SPDX-License-Identifier: MIT
// A plan: what a replay does, ready to be mapped and run. Made by compile.cpp from a trace, run by play.cpp under any
// allocator; the two are different processes, so that reading a trace leaves nothing in the heap that is measured. It
// lives as long as one command and never moves to another machine.
//
// A file of: Head, a Thread for each thread, a Sample's live bytes (u64) for each sample, the steps thread by thread.
//
// Blocks are in slots, one pointer each. A slot is either private: its block is allocated and freed by the same thread,
// which uses the slot again; or shared: another thread takes the block, so the slot is used once and the taker waits
// until it is filled. A realloc takes from one slot and fills another.
#pragma once

#include <cstdint>

namespace coffer::replay {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

inline constexpr char kPlanMagic[8] = {'C', 'O', 'F', 'P', 'L', 'A', 'N', '1'};

enum class Step : u32 {
  malloc = 0,
  calloc = 1,
  aligned = 2,    // other: log2 of the alignment
  realloc = 3,    // other: the slot that is filled; old_size comes before
  free = 4,       // size: of the block
  advance = 5,    // nothing but size more in the sequence
  sample = 6,     // slot: which; measure memory
  start = 7,      // slot: which thread
  join = 8,       // slot: which thread
  wait = 9,       // size: until so many nanoseconds after the start
  old_size = 10,  // size: of the block that the next realloc takes
  work = 11       // size: instructions to execute
};
inline constexpr u32 kOperations = 5;  // those below are calls of the allocator

inline constexpr u32 kShared = u32{1} << 31;  // of a slot

// Three fields in one word: which step, by how much its place in the order of the whole trace is beyond that of this
// thread's step before, and a size.
struct PlanStep {
  static constexpr u32 kKindBits = 4, kAdvanceBits = 13;
  static constexpr u64 kMaxAdvance = (u64{1} << kAdvanceBits) - 1;
  static constexpr u64 kMaxSize = (u64{1} << (64 - kKindBits - kAdvanceBits)) - 1;

  u64 word;
  u32 slot;
  u32 other;

  static PlanStep make(Step kind, u64 advance, u64 size, u32 slot = 0, u32 other = 0) {
    return {static_cast<u64>(kind) | advance << kKindBits | size << (kKindBits + kAdvanceBits), slot, other};
  }
  Step kind() const { return static_cast<Step>(word & ((1u << kKindBits) - 1)); }
  u64 advance() const { return word >> kKindBits & kMaxAdvance; }
  u64 size() const { return word >> (kKindBits + kAdvanceBits); }
};
static_assert(sizeof(PlanStep) == 16);

struct PlanThread {
  u64 first_step, steps;
  u64 first_slot;      // its private slots are from here on
  u64 first_sequence;  // its first operation's place in the trace
  u64 number;          // in the trace
};

struct PlanHead {
  char magic[8];
  u64 bytes;  // of the file
  u64 threads;
  u64 most_threads;  // that live at a time
  u64 steps;
  u64 samples;
  u64 private_slots, shared_slots;
  u64 operations[kOperations];
  u64 all_operations;
  u64 left_out;  // failed allocations of the trace
  u64 peak_live, end_live;
  u64 duration_ns;
  u64 instructions;  // of all steps `work`
};

// Where the parts lie.
inline u64 threads_offset() { return sizeof(PlanHead); }
inline u64 samples_offset(const PlanHead& head) { return threads_offset() + head.threads * sizeof(PlanThread); }
inline u64 steps_offset(const PlanHead& head) { return (samples_offset(head) + head.samples * 8 + 15) / 16 * 16; }
inline u64 plan_bytes(const PlanHead& head) { return steps_offset(head) + head.steps * sizeof(PlanStep); }

}  // namespace coffer::replay
