// SPDX-License-Identifier: MIT
// What the recorder in the program and the collector share: one mapping, and a hello over a socket.
//
// The mapping has one Area, a head for each chunk, and the chunks' bytes. A chunk holds records of one thread, as
// docs/reference/trace.md has them in a batch. The program's threads take chunks, write records and hand full chunks
// in; the collector (coffer record, another process) copies records out, also of chunks that are not full, and puts
// handed-in chunks on the free list. Since the mapping belongs to both, what a thread has recorded survives whatever
// becomes of the program: kill -9 between two instructions loses nothing.
//
// The program can write all over the mapping, so the collector believes nothing that it reads there.
#pragma once

#include <atomic>

#include "trace/format.hpp"

namespace coffer::record {

using trace::u16;
using trace::u32;
using trace::u64;
using trace::u8;

inline constexpr u32 kChunkBytes = 16384;
inline constexpr u32 kMaxChunks = 65536;
// So many chunks may be in use besides one for each thread; a program that is ahead of the collector by more waits.
inline constexpr u32 kSpareChunks = 512;
// Where the collector listens, and what a process must know to be let in: the token, a colon, the socket's path. The
// program may become another user (setpriv, a server that gives up root), so anyone may connect.
inline constexpr const char* kSocketVariable = "COFFER_RECORD_SOCKET";
inline constexpr u32 kTokenBytes = 32;  // characters
inline constexpr u32 kLostKinds = 5;    // trace::Lost and 0

enum class ChunkState : u32 {
  free = 0,
  active = 1,  // a thread's; it adds records
  full = 2,    // handed in; the collector's
};

struct alignas(64) ChunkHead {
  std::atomic<u32> state;  // release: pairs with the other side's acquire, who then owns or reads the rest
  std::atomic<u32> used;   // bytes of whole records; release by the thread, acquire by the collector
  u32 thread;
  u32 sequence;  // of the thread's chunks, from 0
  u64 base_time;
  std::atomic<u32> next;  // in the free list: index + 1 of the next chunk
};

struct alignas(64) Area {
  u32 capacity;                            // chunks
  alignas(64) std::atomic<u64> free_list;  // tag (high half), index + 1 of the first chunk (low half)
  alignas(64) std::atomic<u32> fresh;      // chunks from here on were never used
  std::atomic<u32> threads;                // numbers given
  std::atomic<u32> attached;               // threads that have a chunk
  alignas(64) std::atomic<u32> drained;    // futex word: rises when chunks have become free
  std::atomic<u32> waiting;                // threads that wait for that
  std::atomic<u32> beat;                   // rises while the collector lives
  std::atomic<u32> closed;                 // the collector takes no more
  alignas(64) std::atomic<u64> lost[kLostKinds];
  std::atomic<u64> stacks;       // numbers given
  std::atomic<u32> mapped;       // rises when the program has seen that other objects are mapped
  std::atomic<u64> figures_due;  // monotonic nanoseconds when the allocator's own figures are next due
};

inline constexpr u64 kHeadsOffset = 4096;
static_assert(sizeof(Area) <= kHeadsOffset);
inline u64 data_offset(u32 capacity) { return kHeadsOffset + (u64{capacity} * sizeof(ChunkHead) + 4095) / 4096 * 4096; }
inline u64 area_bytes(u32 capacity) { return data_offset(capacity) + u64{capacity} * kChunkBytes; }

// The hello. The collector's answer carries the mapping's descriptor if mode is not off.
inline constexpr u32 kHelloMagic = 0xC0FFE203;

struct Hello {
  u32 magic;
  u32 is_fork;  // the same program image as the parent's
  u64 room;     // bytes of address space that may be taken
  char token[kTokenBytes];
  char allocator[512];
  char version[64];  // of the allocator, if it says
  u32 counts;        // valgrind counts its instructions; then also, since valgrind stands where the kernel shows it:
  char program[512];
};

enum class Mode : u32 { off = 0, on = 1 };
enum class Stacks : u32 { none = 0, frames = 1, unwind = 2 };

struct Answer {
  u32 magic;
  Mode mode;
  u32 capacity;
  u32 use_tsc;
  Stacks stacks;
  u32 depth;  // frames of a stack, at most
};

}  // namespace coffer::record
