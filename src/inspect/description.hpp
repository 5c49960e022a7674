// SPDX-License-Identifier: MIT
// Where the records of a process lie, for `coffer retainers` (tools/retain), which reads the memory of a copy of the
// process that stands still: it calls nothing there, and the process knows nothing of it. It is compiled with the same
// headers, and believes a library whose records look as its own do (fingerprint).
//
// A reader finds the description by its first 16 bytes, in a mapping of libcoffer.so or of a program that has it linked
// in, and knows it from a copy in a file by `self`.
#pragma once

#include <cstddef>

#include "arena/block.hpp"
#include "base/hardening.hpp"
#include "mixed/unit_map.hpp"
#include "observe/samples.hpp"

namespace coffer {

inline constexpr char kDescriptionMagic[16] = {'C', 'o', 'f', 'f', 'e', 'r', ' ', 'r', 'e', 'c', 'o', 'r', 'd', 's'};

// Changes with whatever a reader of the records has to know.
constexpr u64 records_fingerprint() {
  constexpr u64 kParts[] = {1,  // the records' meaning, where it changes and their form does not
                            sizeof(ArenaTable),
                            sizeof(Arena),
                            offsetof(Arena, spans),
                            offsetof(Arena, link_key),
                            offsetof(Arena, unit_maps),
                            offsetof(Arena, reserved),
                            offsetof(Arena, highest_chunk),
                            sizeof(Span),
                            offsetof(Span, first_block),
                            offsetof(Span, use),
                            offsetof(Span, slices),
                            offsetof(Span, block_bytes),
                            offsetof(Span, capacity),
                            offsetof(Span, row_log2),
                            offsetof(Span, absent),
                            sizeof(Chunk),
                            offsetof(Chunk, use),
                            offsetof(Chunk, large_chunks),
                            sizeof(Group),
                            offsetof(Group, taken),
                            kSliceBytes,
                            kSlicesPerChunk,
                            kCarvePage,
                            kUnitMapBytes,
                            sizeof(Samples),
                            sizeof(Samples::Table),
                            sizeof(Samples::Live),
                            kMarkByte};
  u64 hash = 0xcbf29ce484222325;  // FNV
  for (const u64 part : kParts) hash = (hash ^ part) * 0x100000001b3;
  return hash;
}

struct Description {
  char magic[16];
  u64 bytes;  // of this
  u64 fingerprint;
  const Description* self;
  const ArenaTable* arenas;
  const Samples* samples;
  u64 canaries;  // 1: the last 8 bytes of a block that the program has are not zero (hardened/canary.hpp)
};

}  // namespace coffer
