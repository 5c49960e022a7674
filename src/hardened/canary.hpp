// SPDX-License-Identifier: MIT
// What stands behind the bytes that the program asked for, in a block of the hardened build.
//
//   a live block    | the program's n bytes | guard, 8 bytes | zero | trailer |      `have` bytes in all
//   a free block    | zero (of one on a list the heap has the first 16 bytes) | freed trailer |
//
//   mac             64 bits of the address and the process's secret
//   trailer         mac + (have - n) * an odd number: it says how long the request was. Few values pass
//   guard           mac, turned. Where the trailer begins less than 8 bytes behind the request, only what fits
//   freed trailer   ~mac, or 0: the kernel gave the page back, or the block was never handed out
//   busy            a thread is at work on the block: in a fork child, one that vanished
//
// A write behind the end meets the guard first, one before the begin the trailer of the block in front. All of it is a
// check against mistakes, and against who can write and not read.
#pragma once

#include <string.h>

#include "arena/arena.hpp"
#include "base/zero.hpp"

namespace coffer::hardened {

inline constexpr usize kCanaryBytes = 8;
// The two words that a heap writes into a free block, and a trailer behind them.
inline constexpr usize kLeastBlock = 32;

inline constexpr u64 kSlackFactor = 0xbf58476d1ce4e5b9;
// By Newton's steps: each doubles the bits that are right.
constexpr u64 inverse_of(u64 odd) {
  u64 inverse = odd;
  for (int i = 0; i < 5; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}
static_assert(kSlackFactor * inverse_of(kSlackFactor) == 1);

inline u64 mac_of(const void* block) {
  // relaxed: it is there before there is a block (links_start).
  const u64 key = g_arenas.arenas[0].link_key.load(relaxed);
  u64 bits = (reinterpret_cast<uptr>(block) ^ key) * 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 29)) * (key | 1);
  return bits ^ (bits >> 32);
}

inline u64 load_word(const char* from) {
  u64 word;
  memcpy(&word, from, sizeof word);
  return word;
}
inline void store_word(char* to, u64 word) { memcpy(to, &word, sizeof word); }

inline u64 guard_of(u64 mac) { return mac << 17 | mac >> 47; }

// Before what stands behind the request changes.
inline u64 busy_trailer(u64 mac) { return mac ^ kSlackFactor; }
inline void begin_change(void* block, usize have, u64 mac) {
  store_word(static_cast<char*>(block) + have - kCanaryBytes, busy_trailer(mac));
  compiler_fence();  // a fork child must not find the change without this
}

inline void write_canary(void* block, usize have, usize size, u64 mac) {
  char* const bytes = static_cast<char*>(block);
  store_word(bytes + size, guard_of(mac));
  compiler_fence();  // as in begin_change
  store_word(bytes + have - kCanaryBytes, mac + (have - size) * kSlackFactor);
}

inline u64 trailer_of(const void* block, usize have) {
  return load_word(static_cast<const char*>(block) + have - kCanaryBytes);
}
inline u64 freed_trailer(const void* block) { return ~mac_of(block); }

// live: `size` is what was asked for. freed: by this layer, and not handed out since.
enum class Found : u8 { live, freed, busy, broken };
struct Canary {
  Found found;
  usize size;
};
inline Canary read_canary(const void* block, usize have) {
  const u64 mac = mac_of(block);
  const u64 trailer = trailer_of(block, have);
  if (COFFER_UNLIKELY(trailer == ~mac)) return {Found::freed, 0};
  if (COFFER_UNLIKELY(trailer == busy_trailer(mac))) return {Found::busy, 0};
  const u64 slack = (trailer - mac) * inverse_of(kSlackFactor);
  if (COFFER_UNLIKELY(slack < kCanaryBytes || slack > have)) return {Found::broken, 0};
  const usize size = have - slack;
  const u64 bytes = slack - kCanaryBytes;  // of the guard, which the trailer does not cover
  if (bytes == 0) return {Found::live, size};
  const u64 differ = load_word(static_cast<const char*>(block) + size) ^ guard_of(mac);
  const bool whole = (bytes >= kCanaryBytes ? differ : differ << (8 * (kCanaryBytes - bytes))) == 0;
  return {COFFER_LIKELY(whole) ? Found::live : Found::broken, size};
}

// The block is free from now on; nothing of the program's stays in it.
inline void write_freed(void* block, usize have) {
  const u64 mac = mac_of(block);
  begin_change(block, have, mac);
  const usize bytes = have - kCanaryBytes;
  if (COFFER_LIKELY(bytes <= kMostZeroedInline - kQuantum)) {
    // Whole lanes, but for the last word, which is the trailer's neighbour.
    zero_small(block, bytes - bytes % kQuantum);
    memset(static_cast<char*>(block) + bytes - kCanaryBytes, 0, kCanaryBytes);
  } else {
    memset(block, 0, bytes);
  }
  compiler_fence();  // as in begin_change
  store_word(static_cast<char*>(block) + bytes, ~mac);
}

// Whether a free block is as write_freed left it, or as it was cut. Its first `heaps` bytes are the heap's own.
COFFER_INLINE bool is_untouched(const void* block, usize have, usize heaps, u64 mac) {
  using Lane __attribute__((vector_size(16), may_alias, aligned(1))) = u64;
  const char* from = static_cast<const char*>(block) + heaps;
  const char* const end = static_cast<const char*>(block) + have - kCanaryBytes;
  const auto lane = [](const char* at) __attribute__((always_inline)) { return *reinterpret_cast<const Lane*>(at); };
  Lane bits = {};
  for (; end - from >= 64; from += 64) bits |= lane(from) | lane(from + 16) | lane(from + 32) | lane(from + 48);
  for (; end - from >= 16; from += 16) bits |= lane(from);
  for (; end - from >= 8; from += 8) bits[0] |= load_word(from);
  for (; from < end; ++from) bits[0] |= static_cast<u8>(*from);  // of a guarded sample
  const u64 trailer = load_word(end);
  return (bits[0] | bits[1]) == 0 && (trailer == ~mac || trailer == 0);
}
inline bool is_untouched(const void* block, usize have, usize heaps) {
  return is_untouched(block, have, heaps, mac_of(block));
}

}  // namespace coffer::hardened
