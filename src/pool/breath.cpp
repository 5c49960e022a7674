// SPDX-License-Identifier: MIT
#include "pool/breath.hpp"

#include "config/config.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/limit.hpp"
#include "pool/reclaimer.hpp"

namespace coffer {

namespace {

constexpr u64 kTicks = 4;  // ended ticks that count

// Smaller changes are not worth a store to a line that all threads share.
constexpr usize kGrain = 128 * 1024;

// What returns may stay, but no more than this share of the recent peak: holes between blocks are no more.
constexpr usize kReturnsShare = 8;

struct alignas(kCacheLine) Breath {
  Atomic<usize> peak;              // highest held before `low`
  Atomic<usize> low;               // lowest held since `peak`
  Atomic<usize> rise;              // highest of (held, at most peak) - low in this tick
  Atomic<usize> highest;           // highest held in this tick
  Atomic<usize> before;            // highest held from the look that began the tick before to that which began this one
  Atomic<u64> tick;                // number of this tick
  Atomic<u64> low_tick;            // when `low` was reached
  Atomic<usize> rises[kTicks];     // of the ended ticks, by number
  Atomic<usize> highests[kTicks];  // of the ended ticks, by number
  Atomic<usize> tails;             // what is resident behind large blocks: `held`, here and below, is with it
  Atomic<usize> gone;              // bytes purged that were not brought in again
  Atomic<usize> returned;          // bytes brought in again in this tick
  Atomic<usize> returns[kTicks];   // of the ended ticks, by number
  Atomic<usize> bound;             // highest limit since free memory was last seen within its limit
};

Breath g_breath;

usize larger(usize a, usize b) { return a > b ? a : b; }
usize smaller(usize a, usize b) { return a < b ? a : b; }
usize difference(usize a, usize b) { return a > b ? a - b : 0; }

// relaxed, in this file: figures for a limit that may be late. Nothing is published by them.

void note_rise(usize held) {
  Breath& breath = g_breath;
  const usize peak = breath.peak.load(relaxed);
  const usize low = breath.low.load(relaxed);
  const usize rise = difference(smaller(held, peak), low);
  if (rise > breath.rise.load(relaxed) + kGrain) breath.rise.store(rise, relaxed);
  if (held > breath.highest.load(relaxed) + kGrain) breath.highest.store(held, relaxed);
  if (held > peak + kGrain) {
    breath.low.store(held, relaxed);
    breath.peak.store(held, relaxed);
  }
}

void note_fall(usize held) {
  Breath& breath = g_breath;
  if (held + kGrain >= breath.low.load(relaxed)) return;
  breath.low.store(held, relaxed);
  breath.low_tick.store(breath.tick.load(relaxed), relaxed);
}

// Counts slots that turn; whether the shard's cell passed a multiple of half of the grain, so that it is time to look
// at all of them.
bool turn(u32 chunk, usize bytes) {
  if (bytes == 0) return false;
  const usize before = turn_cell(chunk).turned.fetch_add(bytes, relaxed);
  return ((before ^ (before + bytes)) & ~(kGrain / 2 - 1)) != 0;
}

// Ends the running tick. The clock is looked at whenever more than the option is free: if nobody did for longer than is
// remembered, nothing that was worth it came back.
void pass_time(usize held) {
  Breath& breath = g_breath;
  const u64 now = os::coarse_ns() / kTickNs;
  u64 before = breath.tick.load(relaxed);
  // The clocks of two threads may differ by a moment. The winner of the exchange does the work; a failure without
  // reason leaves it to the next call.
  if (now <= before || !breath.tick.compare_exchange(before, now, relaxed, relaxed)) return;
  const u64 passed = smaller(now - before, kTicks + 1);
  for (u64 i = 1; i < passed; ++i) {
    breath.rises[(now - i) % kTicks].store(0, relaxed);
    breath.returns[(now - i) % kTicks].store(0, relaxed);
    breath.highests[(now - i) % kTicks].store(0, relaxed);
  }
  const usize rise = breath.rise.exchange(0, relaxed);
  const usize highest = breath.highest.exchange(held, relaxed);
  const usize returned = breath.returned.exchange(0, relaxed);
  breath.before.store(highest, relaxed);
  if (passed <= kTicks) {
    breath.rises[before % kTicks].store(rise, relaxed);
    breath.returns[before % kTicks].store(returned, relaxed);
    breath.highests[before % kTicks].store(highest, relaxed);
  }
  if (passed > kTicks) breath.gone.store(0, relaxed);
  // A swing that began long ago is over: its peak is not recent, and what rises now is growth.
  if (now - breath.low_tick.load(relaxed) > kTicks) {
    breath.low.store(held, relaxed);
    breath.peak.store(held, relaxed);
    breath.low_tick.store(now, relaxed);
  }
}

// What was given up in this tick and the one before. Kept only where somebody will see to it when nobody frees any
// more.
usize fresh_fall(usize held) {
  if (!reclaimer_lives()) return 0;
  return difference(larger(g_breath.highest.load(relaxed), g_breath.before.load(relaxed)), held);
}

}  // namespace

void held_rises(usize bytes) { note_rise(counters().held.fetch_add(bytes, relaxed) + bytes + resident_tails()); }

void held_falls(usize bytes) { note_fall(counters().held.fetch_sub(bytes, relaxed) - bytes + resident_tails()); }

void slots_rise(u32 chunk, usize bytes, usize resident) {
  const bool passed = turn(chunk, resident);
  if (bytes != resident) return held_rises(bytes - resident);
  if (passed) note_rise(counters().held.load(relaxed) + resident_tails());
}

void slots_fall(u32 chunk, usize bytes, usize resident) {
  const bool passed = turn(chunk, usize{0} - resident);
  if (bytes != resident) return held_falls(bytes - resident);
  if (passed) note_fall(counters().held.load(relaxed) + resident_tails());
}

usize resident_tails() { return g_breath.tails.load(relaxed); }

void count_tails_anew(usize bytes) { g_breath.tails.store(bytes, relaxed); }

void tail_changes(usize before, usize after) {
  if (after != before) g_breath.tails.fetch_add(after - before, relaxed);
}

void note_purged(usize bytes) {
  if (bytes != 0) g_breath.gone.fetch_add(bytes, relaxed);
}

void note_clean(usize bytes) {
  Breath& breath = g_breath;
  const usize gone = breath.gone.load(relaxed);
  if (gone == 0 || bytes == 0) return;
  const usize back = smaller(bytes, gone);
  breath.gone.store(gone - back, relaxed);
  breath.returned.fetch_add(back, relaxed);
}

usize least_free_limit() {
  const usize option = config::options().free_limit;
  return option < kNegligible ? option : kNegligible;
}

void note_limit(usize limit, usize dirty) {
  Atomic<usize>& bound = g_breath.bound;
  // Free memory within the option is not judged at each free, so the option always counts.
  const usize most = larger(limit, config::options().free_limit) + kFreeBatch;
  usize seen = bound.load(relaxed);
  while (seen < most && !bound.compare_exchange(seen, most, relaxed, relaxed)) {
  }
  if (seen <= most || dirty > most || !bound.compare_exchange(seen, most, seq_cst, relaxed)) return;
  // Another thread may have freed, and have been judged by the higher limit, before it was taken back here. seq_cst:
  // with the exchange; one of the two sees the other.
  if (counters().dirty.load(seq_cst) <= most) return;
  const usize before = seen;
  seen = most;
  while (seen < before && !bound.compare_exchange(seen, before, relaxed, relaxed)) {
  }
}

usize free_bound() {
  note_limit(free_limit(), counters().dirty.load(relaxed));
  return g_breath.bound.load(relaxed);
}

usize free_limit() {
  const usize held = counters().held.load(relaxed) + resident_tails();
  pass_time(held);
  if (limit_pressure()) return least_free_limit();
  Breath& breath = g_breath;
  usize rise = breath.rise.load(relaxed);
  usize highest = breath.highest.load(relaxed);
  usize returns = breath.returned.load(relaxed);
  for (u64 i = 0; i < kTicks; ++i) {
    rise = larger(rise, breath.rises[i].load(relaxed));
    highest = larger(highest, breath.highests[i].load(relaxed));
    returns += breath.returns[i].load(relaxed);
  }
  const usize breathes = smaller(rise, difference(highest, held));
  return config::options().free_limit + larger(breathes, fresh_fall(held)) + smaller(returns, highest / kReturnsShare);
}

}  // namespace coffer
