// SPDX-License-Identifier: MIT
// The budget: what the process may have resident through Coffer, and how much of it is charged. Everything is charged
// to one counter before it can become resident:
//
//   charged = bytes of slices and large blocks in use (held)
//           + the resident rest behind large blocks (Chunk::large_tail)
//           + free memory that may be resident (dirty)
//           + metadata made writable
//
// coffer_check computes the sum again. Memory that changes between "in use" and "free and resident" stays charged, so
// the counter is never too low, not even for a moment. Only memory that is surely clean is uncharged. If a charge
// fails, pool/limit.hpp makes room.
#pragma once

#include "base/atomic.hpp"
#include "cpu/cpu.hpp"

namespace coffer {

struct alignas(kCacheLine) Budget {
  Atomic<usize> charged;
  Atomic<usize> limit;  // kLimitUnset, kLimitNone, or 1 + the limit in bytes
};

inline constexpr usize kLimitUnset = 0;  // the option was not looked at yet: no limit so far
inline constexpr usize kLimitNone = 1;   // as option and interface give it: 0 bytes is no limit
constexpr usize encode_limit(usize bytes) { return bytes == 0 ? kLimitNone : bytes < ~usize{0} ? bytes + 1 : bytes; }

inline Budget& budget() {
  static constinit Budget instance;
  return instance;
}

// Charges `bytes` if the limit allows; it is never passed, not even for a moment.
inline bool charge(usize bytes) {
  Budget& b = budget();
  // relaxed, here and below: a count, and a limit that holds from when it is seen. The charge itself is one
  // read-modify-write, so no two threads take the same bytes of it.
  const usize limit = b.limit.load(relaxed);
  if (bytes == 0) return true;  // also above a limit that was lowered
  if (COFFER_LIKELY(limit <= kLimitNone)) {
    b.charged.fetch_add(bytes, relaxed);
    return true;
  }
  usize seen = b.charged.load(relaxed);
  do {
    if (seen >= limit || bytes > limit - 1 - seen) return false;
  } while (!b.charged.compare_exchange(seen, seen + bytes, relaxed, relaxed));
  return true;
}

inline bool is_limited() { return budget().limit.load(relaxed) > kLimitNone; }  // relaxed: see charge

// For memory that is resident already and could not be given back: the truth comes before the limit.
inline void charge_anyway(usize bytes) { budget().charged.fetch_add(bytes, relaxed); }  // relaxed: see charge
inline void uncharge(usize bytes) {
  if (bytes != 0) budget().charged.fetch_sub(bytes, relaxed);  // relaxed: see charge
}

// Puts the option `limit` in force, unless the program has set one already.
void limit_start();
usize get_limit();
// Whether the limit leaves so many bytes beside the records, which never go back. false: no purge can help.
bool limit_could_allow(usize bytes);

}  // namespace coffer
