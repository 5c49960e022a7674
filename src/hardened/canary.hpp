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

// One multiplication, whose factor is secret, too.
COFFER_INLINE u64 mac_of(const void* block) {
  // relaxed: it is there before there is a block (links_start).
  const u64 key = g_arenas.arenas[0].link_key.load(relaxed);
  const u64 bits = (reinterpret_cast<uptr>(block) ^ key) * (key | 1);
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

// Whether all behind the request is as write_canary left it; *size: what was asked for.
COFFER_INLINE bool is_live(const void* block, usize have, u64 mac, usize* size) {
  const u64 slack = (trailer_of(block, have) - mac) * inverse_of(kSlackFactor);
  if (COFFER_UNLIKELY(slack - kCanaryBytes > have - kCanaryBytes)) return false;
  *size = have - slack;
  // Bytes of the guard that the trailer covers, 0 to 8: without a branch, for sizes vary; and two shifts, for it may
  // be all of them.
  const i64 over = static_cast<i64>(2 * kCanaryBytes - slack);
  const u64 covered = static_cast<u64>(over & ~(over >> 63));
  const u64 differ = load_word(static_cast<const char*>(block) + *size) ^ guard_of(mac);
  return COFFER_LIKELY((differ << (4 * covered) << (4 * covered)) == 0);
}

// live: `size` is what was asked for. freed: by this layer, and not handed out since.
enum class Found : u8 { live, freed, busy, broken };
struct Canary {
  Found found;
  usize size;
};
inline Canary read_canary(const void* block, usize have) {
  const u64 mac = mac_of(block);
  const u64 trailer = trailer_of(block, have);
  if (trailer == ~mac) return {Found::freed, 0};
  if (trailer == busy_trailer(mac)) return {Found::busy, 0};
  usize size = 0;
  const bool live = is_live(block, have, mac, &size);
  return {live ? Found::live : Found::broken, size};
}

// In lanes, at least one: any size takes one branch that may be foretold wrongly, and groups of four that overlap at
// the end.
using Lane __attribute__((vector_size(16), may_alias)) = u64;
COFFER_INLINE void zero_lanes(Lane* at, usize lanes) {
  constexpr Lane kZero = {};
  const auto zero_four = [](Lane* four) __attribute__((always_inline)) {
    for (int i = 0; i < 4; ++i) four[i] = kZero;
  };
  if (lanes < 4) {
    at[0] = at[lanes / 2] = at[lanes - 1] = kZero;
    return;
  }
  Lane* const last = at + lanes - 4;
  for (; at < last; at += 4) zero_four(at);
  zero_four(last);
}
COFFER_INLINE bool are_zero(const Lane* at, usize lanes) {
  Lane bits = {};
  if (lanes < 4) {
    bits = at[0] | at[lanes / 2] | at[lanes - 1];
  } else {
    const Lane* const last = at + lanes - 4;
    for (; at < last; at += 4) bits |= (at[0] | at[1]) | (at[2] | at[3]);
    bits |= (last[0] | last[1]) | (last[2] | last[3]);
  }
  return (bits[0] | bits[1]) == 0;
}

// From here on the C library's memset, which asks the processor for more, is quicker.
inline constexpr usize kMostZeroedHere = 1024;

// The block is free from now on; nothing of the program's stays in it. `have`: of blocks of the heap it is a multiple
// of 16, here and below.
COFFER_INLINE void write_freed(void* block, usize have, u64 mac) {
  begin_change(block, have, mac);
  char* const last = static_cast<char*>(block) + have - sizeof(Lane);  // where the trailer is
  if (COFFER_LIKELY(have <= kMostZeroedHere)) {
    zero_lanes(static_cast<Lane*>(block), have / sizeof(Lane) - 1);
  } else {
    memset(block, 0, have - sizeof(Lane));
  }
  store_word(last, 0);
  compiler_fence();  // as in begin_change
  store_word(last + kCanaryBytes, ~mac);
}

// Whether a free block is as write_freed left it, or as it was cut. Its first `heaps` bytes, 0 or 16, are the heap's.
COFFER_INLINE bool is_untouched(const void* block, usize have, usize heaps, u64 mac) {
  const char* const first = static_cast<const char*>(block) + heaps;
  const char* const last = static_cast<const char*>(block) + have - sizeof(Lane);
  const u64 trailer = load_word(last + kCanaryBytes);
  if (load_word(last) != 0 || (trailer != ~mac && trailer != 0)) return false;
  const usize lanes = static_cast<usize>(last - first) / sizeof(Lane);
  return (heaps != 0 && lanes == 0) || are_zero(reinterpret_cast<const Lane*>(first), lanes);
}
inline bool is_untouched(const void* block, usize have, usize heaps) {
  return is_untouched(block, have, heaps, mac_of(block));
}

// A block of a span of a class, which the heap gave for `size` bytes, becomes the program's. false: somebody wrote to
// it while it was free.
COFFER_INLINE bool begin_block(void* block, usize have, usize size) {
  const u64 mac = mac_of(block);
  *static_cast<Lane*>(block) = Lane{};  // the heap's bytes
  if (COFFER_UNLIKELY(!is_untouched(block, have, 0, mac))) return false;
  begin_change(block, have, mac);
  write_canary(block, have, size, mac);
  return true;
}

}  // namespace coffer::hardened
