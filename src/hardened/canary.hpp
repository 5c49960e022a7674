// SPDX-License-Identifier: MIT
// What stands behind the bytes that the program asked for, in a block of the hardened build.
//
//   a live block    | the program's n bytes | guard, 8 bytes | zero | trailer |      `have` bytes in all
//   a free block    | zero, also where the trailer was |     of one on a list the heap has the first 16 bytes
//
//   mac             64 bits of the address and the process's secret
//   trailer         mac, but that bits 24 and up differ by have - n: how long the request was. Few values pass, and
//                   none that differs from the right one in the first or the last bytes only
//   guard           mac. Where the trailer begins less than 8 bytes behind the request, only what fits
//   busy            a trailer that is mac: a thread is at work on the block; in a fork child, one that vanished
//
// A write behind the end meets the guard first, one before the begin the trailer of the block in front. All of it is a
// check against mistakes, and against who can write and not read.
#pragma once

#include <string.h>

#include <array>

#include "arena/arena.hpp"
#include "base/bits.hpp"

namespace coffer::hardened {

inline constexpr usize kCanaryBytes = 8;
// The two words that a heap writes into a free block, and a trailer behind them.
inline constexpr usize kLeastBlock = 32;

inline constexpr u32 kSlackShift = 24;

#if defined(__x86_64__)
#define COFFER_KEEP_LANE(x) __asm__("" : "+x"(x))
#else
#define COFFER_KEEP_LANE(x) static_cast<void>(x)
#endif

// One multiplication, whose factor is secret, too. The key is odd, and so is the product: its first byte is never 0,
// and a string's end behind the request never passes for it.
COFFER_INLINE u64 mac_of(const void* block, u64 key) { return (reinterpret_cast<uptr>(block) ^ key) * key; }
inline u64 canary_key() {
  // relaxed: it is there before there is a block (links_start).
  return g_arenas.arenas[0].link_key.load(relaxed) | 1;
}
inline u64 mac_of(const void* block) { return mac_of(block, canary_key()); }

inline u64 load_word(const char* from) {
  u64 word;
  memcpy(&word, from, sizeof word);
  return word;
}
inline void store_word(char* to, u64 word) { memcpy(to, &word, sizeof word); }

// Before what stands behind the request changes: no request leaves 0 bytes.
inline void begin_change(void* block, usize have, u64 mac) {
  store_word(static_cast<char*>(block) + have - kCanaryBytes, mac);
  compiler_fence();  // a fork child must not find the change without this
}

inline void write_canary(void* block, usize have, usize size, u64 mac) {
  char* const bytes = static_cast<char*>(block);
  store_word(bytes + size, mac);
  compiler_fence();  // as in begin_change
  store_word(bytes + have - kCanaryBytes, mac ^ u64{have - size} << kSlackShift);
}

inline u64 trailer_of(const void* block, usize have) {
  return load_word(static_cast<const char*>(block) + have - kCanaryBytes);
}

// By the bytes of the guard that the trailer does not cover, all 8 from there on. From a table, without a branch: sizes
// vary. Of short blocks one that has all numbers there are, which saves cutting them off.
inline constexpr usize kMostShort = 17 * 16;
inline constexpr std::array<u64, kMostShort> kGuardBits = [] {
  std::array<u64, kMostShort> bits{};
  for (u32 i = 0; i < bits.size(); ++i) bits[i] = i < kCanaryBytes ? low_mask(8 * i) : ~u64{0};
  return bits;
}();

// Whether all behind the request is as write_canary left it; *size: what was asked for.
template <bool kShort>
COFFER_INLINE bool is_live_block(const void* block, usize have, u64 mac, usize* size) {
  const u64 differs = trailer_of(block, have) ^ mac;
  const u64 slack = differs >> kSlackShift | differs << (64 - kSlackShift);
  const u64 between = slack - kCanaryBytes;
  if (COFFER_UNLIKELY(between > have - kCanaryBytes)) return false;
  *size = have - slack;
  const u64 guard = load_word(static_cast<const char*>(block) + *size) ^ mac;
  return COFFER_LIKELY((guard & kGuardBits[kShort || between < kCanaryBytes ? between : kCanaryBytes]) == 0);
}
// have <= kMostShort.
COFFER_INLINE bool is_live_short(const void* block, usize have, u64 mac, usize* size) {
  return is_live_block<true>(block, have, mac, size);
}

// In lanes. Any size takes one branch that may be foretold wrongly: a jump into a row of stores, or of loads; longer
// ones go by groups of four, of which the last overlaps.
using Lane __attribute__((vector_size(16), may_alias)) = u64;
inline constexpr usize kMostInRow = kMostShort / sizeof(Lane);
#define COFFER_LANES_4(DO, i) DO((i) + 4) DO((i) + 3) DO((i) + 2) DO((i) + 1)
#define COFFER_LANES(DO) DO(17) COFFER_LANES_4(DO, 12) COFFER_LANES_4(DO, 8) COFFER_LANES_4(DO, 4) COFFER_LANES_4(DO, 0)

// 1 to kMostInRow, the last one last.
COFFER_INLINE void zero_lanes_in_row(Lane* end, usize lanes) {
  Lane zero = {};
  COFFER_KEEP_LANE(zero);  // one register, made once
#define COFFER_ZERO(i)              \
  case i:                           \
    if ((i) == 1) compiler_fence(); \
    end[-(i)] = zero;               \
    [[fallthrough]];
  switch (lanes) {
    COFFER_LANES(COFFER_ZERO)
    case 0:
      return;
    default:
      __builtin_unreachable();
  }
#undef COFFER_ZERO
}
COFFER_INLINE void zero_lanes(Lane* at, usize lanes) {
  constexpr Lane kZero = {};
  Lane* const last = at + lanes - 4;
  for (; at < last; at += 4) at[0] = at[1] = at[2] = at[3] = kZero;
  last[0] = last[1] = last[2] = last[3] = kZero;
}
COFFER_INLINE bool are_zero(const Lane* at, usize lanes) {
  Lane bits = {};
#define COFFER_LOOK(i)   \
  case i:                \
    bits |= at[(i) - 1]; \
    [[fallthrough]];
  switch (lanes) {
    COFFER_LANES(COFFER_LOOK)
    case 0:
      return (bits[0] | bits[1]) == 0;
    default:
      break;
  }
#undef COFFER_LOOK
  const Lane* const last = at + lanes - 4;
  for (; at < last; at += 4) bits |= (at[0] | at[1]) | (at[2] | at[3]);
  bits |= (last[0] | last[1]) | (last[2] | last[3]);
  return (bits[0] | bits[1]) == 0;
}
#undef COFFER_LANES
#undef COFFER_LANES_4

// Whether what lies between the guard and the trailer is still zero.
inline bool is_slack_zero(const void* block, usize have, usize size) {
  const char* const from = static_cast<const char*>(block) + size + kCanaryBytes;
  const char* const to = static_cast<const char*>(block) + have - kCanaryBytes;
  if (to <= from) return true;  // the trailer covers a part of the guard
  const usize bytes = static_cast<usize>(to - from);
  if (bytes < sizeof(u64)) return load_word(to - sizeof(u64)) >> (64 - 8 * bytes) == 0;
  u64 bits = load_word(from) | load_word(to - sizeof(u64));
  if (bytes <= 2 * sizeof(u64)) return bits == 0;
  // Two words reach the first whole lane, and two the trailer from the last.
  bits |= load_word(from + sizeof(u64)) | load_word(to - 2 * sizeof(u64));
  const usize first = round_up(size + kCanaryBytes, sizeof(Lane)), last = round_down(have - kCanaryBytes, sizeof(Lane));
  if (bits != 0 || first >= last) return bits == 0;
  return are_zero(reinterpret_cast<const Lane*>(static_cast<const char*>(block) + first),
                  (last - first) / sizeof(Lane));
}

// As is_live_short, of any block, and what lies behind the guard is looked at, too.
inline bool is_live(const void* block, usize have, u64 mac, usize* size) {
  return is_live_block<false>(block, have, mac, size) && is_slack_zero(block, have, *size);
}

// live: `size` is what was asked for. freed: or never handed out, or overrun with zeros.
enum class Found : u8 { live, freed, busy, broken };
struct Canary {
  Found found;
  usize size;
};
inline Canary read_canary(const void* block, usize have) {
  const u64 mac = mac_of(block);
  const u64 trailer = trailer_of(block, have);
  if (trailer == 0) return {Found::freed, 0};
  if (trailer == mac) return {Found::busy, 0};
  usize size = 0;
  const bool live = is_live(block, have, mac, &size);
  return {live ? Found::live : Found::broken, size};
}

// From here on the C library's memset, which asks the processor for more, is quicker.
inline constexpr usize kMostZeroedHere = 1152 + kCacheLine;

// The block is free from now on; nothing of the program's stays in it. `have`: of blocks of the heap it is a multiple
// of 16, here and below. write_freed_short: of kMostInRow lanes at most.
COFFER_INLINE void write_freed_short(void* block, usize have, u64 mac) {
  begin_change(block, have, mac);
  zero_lanes_in_row(reinterpret_cast<Lane*>(static_cast<char*>(block) + have), have / sizeof(Lane));
}
inline void write_freed(void* block, usize have, u64 mac) {
  if (have <= kMostShort) return write_freed_short(block, have, mac);
  begin_change(block, have, mac);
  Lane* const lanes = static_cast<Lane*>(block);
  const usize last = have / sizeof(Lane) - 1;  // where the trailer is
  if (have <= kMostZeroedHere) {
    zero_lanes(lanes, last);
  } else {
    memset(block, 0, have - sizeof(Lane));
  }
  compiler_fence();  // as in begin_change
  lanes[last] = Lane{};
}

// Whether a free block is as write_freed left it, or as it was carved. Its first `heaps` bytes, 0 or 16, are a heap's.
COFFER_INLINE bool is_untouched(const void* block, usize have, usize heaps) {
  return are_zero(reinterpret_cast<const Lane*>(static_cast<const char*>(block) + heaps),
                  (have - heaps) / sizeof(Lane));
}

// A block that is all zero becomes the program's. false: somebody wrote to it while it was free.
COFFER_INLINE bool begin_zero_block(void* block, usize have, usize size, u64 mac) {
  if (COFFER_UNLIKELY(!is_untouched(block, have, 0))) return false;
  begin_change(block, have, mac);
  write_canary(block, have, size, mac);
  return true;
}
// One of a span of a class, which the heap gave for `size` bytes.
inline bool begin_block(void* block, usize have, usize size) {
  *static_cast<Lane*>(block) = Lane{};  // the heap's bytes
  return begin_zero_block(block, have, size, mac_of(block));
}

}  // namespace coffer::hardened
