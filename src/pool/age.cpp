// SPDX-License-Identifier: MIT
#include "pool/age.hpp"

#include "config/config.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/limit.hpp"
#include "pool/reclaimer.hpp"

namespace coffer {

namespace {

// Where large runs of many sizes come and go, held hardly moves, but the holes between them do: what was purged here
// would be brought in again there. So this share of the highest may be free, too, as far as it was not there yet when
// the tick began. (Two threads with 64 blocks each of 256 KB to 1 MB that are replaced, 80 MB live: 120,000 page
// faults, without it 570,000.)
constexpr usize holes_beside(usize highest) { return highest / kSmallPart; }

struct alignas(kCacheLine) Age {
  Atomic<usize> highest;  // held in the running tick, with tails
  Atomic<usize> before;   // the same of the tick before
  Atomic<usize> whole;    // held and free, with tails, when the running tick began
  Atomic<usize> tails;    // what is resident behind large blocks: `held`, here and below, is with it
  Atomic<u64> began;      // when the running tick did
};

Age g_age;
Atomic<u8> g_refused;  // the kernel did not take pages back once

usize larger(usize a, usize b) { return a > b ? a : b; }
usize smaller(usize a, usize b) { return a < b ? a : b; }

// seq_cst, with the exchanges in end_tick: of one who takes memory and one who ends the tick, one sees the other. Else
// relaxed, in this file: figures for a limit that may be late, and nothing is published by them.

// The highest is noted a grain in advance, and a byte, by which a tick in which held rose is told from one in which it
// did not.
void note(usize held) {
  usize seen = g_age.highest.load(relaxed);
  while (held > seen && !g_age.highest.compare_exchange(seen, held + kGrain + 1, seq_cst, relaxed)) {
  }
}

// Counts slices that turn; whether the shard's cell passed a multiple of half of the grain, so that it is time to look
// at all of them.
bool turn(u32 chunk, usize bytes) {
  if (bytes == 0) return false;
  const usize before = turn_cell(chunk).turned.fetch_add(bytes, relaxed);
  return ((before ^ (before + bytes)) & ~(kGrain / 2 - 1)) != 0;
}

usize whole_now() { return held_and_dirty() + resident_tails(); }

// Free bytes that may stay beside what is held, so that both come to the option above `highest`.
usize up_to(usize highest, usize held) { return config::options().free_limit + larger(highest, held) - held; }

usize allowed() {
  // seq_cst: who takes memory and who ends a tick, see above.
  const usize highest = larger(g_age.highest.load(seq_cst), g_age.before.load(seq_cst));
  return up_to(highest + holes_beside(highest), held_now());
}

}  // namespace

// seq_cst, both: as in allowed.
usize held_now() { return counters().held.load(seq_cst) + resident_tails(); }

// seq_cst: as in allowed.
void held_rises(usize bytes) { note(counters().held.fetch_add(bytes, seq_cst) + bytes + resident_tails()); }

void held_falls(usize bytes) { counters().held.fetch_sub(bytes, relaxed); }

void slices_rise(u32 chunk, usize bytes, usize resident) {
  const bool passed = turn(chunk, resident);
  if (bytes != resident) return held_rises(bytes - resident);
  if (passed) note(held_now());
}

void slices_fall(u32 chunk, usize bytes, usize resident) {
  turn(chunk, usize{0} - resident);
  if (bytes != resident) held_falls(bytes - resident);
}

usize resident_tails() { return g_age.tails.load(relaxed); }

void count_tails_anew(usize bytes) {
  g_age.tails.store(bytes, relaxed);
  note(whole_now());
}

bool give_back_pages(void* start, usize bytes) {
  if (os::purge(start, bytes)) return true;
  g_refused.store(1, relaxed);
  return false;
}

void tail_changes(usize before, usize after) {
  if (after != before) g_age.tails.fetch_add(after - before, relaxed);
}

usize least_free_limit() {
  const usize option = config::options().free_limit;
  return option < kNegligible ? option : kNegligible;
}

usize free_limit() { return limit_pressure() ? least_free_limit() : allowed(); }

usize next_free_limit(usize held) {
  if (limit_pressure()) return least_free_limit();
  const usize highest = g_age.highest.load(relaxed);
  const usize whole = whole_now(), before = g_age.whole.load(relaxed);
  const usize grown = whole > before ? whole - before : 0;
  return up_to(highest + smaller(grown, holes_beside(highest)), held);
}

usize free_bound() { return allowed() + kFreeBatch; }

usize free_most() {
  const usize missed = counters().committed.load(relaxed) / (kStepLooks / 2 - 1);
  return g_refused.load(relaxed) != 0 ? ~usize{0} : free_bound() + missed;
}

u64 tick_began() { return g_age.began.load(relaxed); }

bool tick_is_over(u64 began) {
  const u64 now = os::coarse_ns();
  return now > began && now - began >= kTickNs;  // the clocks of two threads may differ by a moment
}

bool is_quiet(usize held) { return g_age.highest.load(relaxed) == held; }

void end_tick(u64 began) {
  if (!g_age.began.compare_exchange(began, os::coarse_ns(), relaxed, relaxed)) return;
  g_age.whole.store(whole_now(), relaxed);
  // seq_cst, all: as in allowed. First the limit falls, then it is seen whether that was right.
  const usize highest = g_age.highest.exchange(held_now(), seq_cst);
  const usize before = g_age.before.exchange(highest, seq_cst);
  if (counters().dirty.load(seq_cst) > free_bound()) g_age.before.store(larger(before, highest), relaxed);
}

}  // namespace coffer
