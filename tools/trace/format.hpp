// SPDX-License-Identifier: MIT
// The trace format's constants and layouts; docs/reference/trace.md says what they mean. Needs no C++ runtime: the
// recorder includes it.
#pragma once

#include <cstdint>

namespace coffer::trace {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structures are written as they lie in memory");

inline constexpr u8 kMagic[8] = {0x89, 'C', 'O', 'F', 'T', 'R', '\r', '\n'};
inline constexpr u32 kFrameMagic = 0x32524643;   // "CFR2"
inline constexpr u32 kFrameMagic1 = 0x4D524643;  // "CFRM": of version 1
inline constexpr u16 kMajor = 2;
inline constexpr u16 kMinor = 0;
inline constexpr u32 kMaxInformation = 1u << 20;
inline constexpr u32 kMaxPlain = 16u << 20;   // of a frame's payload
inline constexpr u32 kMaxRecords = 1u << 20;  // of one with records: what is lost where a byte is damaged
inline constexpr u32 kMaxFrames = 256;        // of a stack

enum class Blocks : u8 { addresses = 0, identities = 1 };
enum class Kind : u8 { records = 1, modules = 2, footer = 255 };
enum class Codec : u8 { stored = 0, zstd = 1 };

enum class Op : u8 {
  malloc = 0,
  calloc = 1,
  aligned = 2,
  realloc = 3,
  free = 4,
  thread_start = 5,
  thread_end = 6,
  fork = 7,
  take = 8,
  give = 9,
  figure = 10,
  stack = 11,
  lost = 12,
};
inline constexpr u8 kOps = 13;

// `how` of take and give, `which` of figure, `why` of lost.
enum class Take : u8 { mmap = 1, mprotect = 2, brk = 3, mremap = 4 };
enum class Give : u8 { munmap = 1, mprotect = 2, brk = 3, mremap = 4, madvise = 5 };
enum class Figure : u8 { resident = 1, live = 2, held = 3, allocator_resident = 4, bound = 5 };
enum class Lost : u8 { disk_full = 1, signal_handler = 2, no_buffer = 3, overwritten = 4 };

struct Head {
  u8 magic[8];
  u16 major, minor;
  u32 information;
  u64 ticks, ns, realtime_ns;
  u8 blocks;
  u8 zero[11];
  u32 crc;
};
static_assert(sizeof(Head) == 56);

// All that is needed to read a frame alone: the head's blocks and start are here again.
struct FrameHead {
  u32 magic;
  u8 kind, codec, blocks, zero;
  u32 stored, plain;
  u64 first, last;
  u64 ticks, ns;
  u32 records, index;  // index: of the frame, from 0
  u64 before;          // records in the frames before it
  u64 start_ticks, start_ns;
  u32 payload_crc, crc;
};
static_assert(sizeof(FrameHead) == 88);

// As version 1 had it.
struct FrameHead1 {
  u32 magic;
  u8 kind, codec;
  u16 zero;
  u32 stored, plain;
  u64 first, last;
  u64 ticks, ns;
  u32 records, zero2;
  u32 payload_crc, crc;
};
static_assert(sizeof(FrameHead1) == 64);

struct BatchHead {
  u32 thread, bytes, records, zero;
  u64 base_time, base_block;
};
static_assert(sizeof(BatchHead) == 32);

struct ModuleHead {
  u64 start, end, offset;
  u16 path;
  u8 build_id, zero;
};

inline constexpr u16 kHasStack = 1u << 13;
inline constexpr u16 kHasInstructions = 1u << 14;

// Which blocks a record speaks of; the others' B is no block.
constexpr bool is_allocation(Op op) {
  return op == Op::malloc || op == Op::calloc || op == Op::aligned || op == Op::realloc;
}
constexpr bool has_block(Op op) { return is_allocation(op) || op == Op::free; }

}  // namespace coffer::trace
