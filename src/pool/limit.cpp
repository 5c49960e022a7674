// SPDX-License-Identifier: MIT
#include "pool/limit.hpp"

#include "config/config.hpp"
#include "observe/counters.hpp"
#include "os/os.hpp"
#include "pool/age.hpp"
#include "pool/slice_pool.hpp"
#include "pool/tails.hpp"

namespace coffer {

namespace {

// Free memory that waiting did not bring back: the kernel keeps it (locked, or parts of larger pages). Not waited for
// again.
Atomic<usize> g_stuck;

constexpr usize kEverything = ~usize{0} / 2;  // half, so that rounding up does not wrap

// What could be given back: free memory, and what is resident behind large blocks.
usize dirty() { return counters().dirty.load(relaxed); }  // relaxed: a limit that may be late
usize purgeable() { return dirty() + resident_tails(); }

// Tails first: free memory may be used again.
usize purge_all(usize bytes) {
  const usize tails = purge_tails(bytes);
  return tails < bytes ? tails + purge_free(bytes - tails) : tails;
}

usize used_now() { return held_and_dirty() + resident_tails(); }

// What limit_pressure goes by. 0: not read yet.
Atomic<usize> g_group_limit;
Atomic<usize> g_next_reading;  // bytes held and free at which the limits are read next

void read_group_limit(usize used) {
  // relaxed, all: one of those who come reads, the others go by what is there.
  usize next = g_next_reading.load(relaxed);
  if (used < next || !g_next_reading.compare_exchange(next, 2 * used, relaxed, relaxed)) return;
  if (os::filter_came()) {
    g_next_reading.store(~usize{0}, relaxed);  // what was read before stands
    return;
  }
  const usize limit = os::cgroup_memory_limit("");
  g_group_limit.store(limit != 0 ? limit : 1, relaxed);
}

}  // namespace

void set_limit(usize bytes) {
  // relaxed, both: see charge.
  budget().limit.store(encode_limit(bytes), relaxed);
  if (bytes != 0 && budget().charged.load(relaxed) > bytes) purge_all(kEverything);
}

bool make_room(usize own) {
  if (!is_limited() || purgeable() <= own) return false;
  if (purge_all(kEverything) != 0) return true;
  // Whoever purges holds the slices meanwhile and counts them clean afterwards: others find nothing, and their NULL
  // would be false.
  usize left = dirty();
  // relaxed, here and below: a guess that saves time.
  if (left <= own + g_stuck.load(relaxed)) return false;
  const u64 start = os::monotonic_ns();
  while (left > own && os::monotonic_ns() - start < kWaitNs) {
    os::yield();
    if (purge_all(kEverything) != 0) return true;
    const usize now = dirty();
    if (now < left) return true;
    left = now;
  }
  g_stuck.store(left > own ? left - own : 0, relaxed);
  return false;
}

bool is_limit_reached() {
  // relaxed, both: see charge.
  const usize limit = budget().limit.load(relaxed);
  return limit > kLimitNone && budget().charged.load(relaxed) + kSliceBytes >= limit && purgeable() == 0;
}

void look_at_group_limit() {
  const usize used = used_now();
  if (used >= kWorthReading && config::options().cgroup) read_group_limit(used);
}

bool limit_pressure() {
  // relaxed, all: limits that may be late.
  const usize used = used_now();
  if (used < kWorthReading || !config::options().cgroup) return false;
  const usize limit = g_group_limit.load(relaxed);
  return limit != 0 && limit != os::kNoMemoryLimit && used > limit - limit / kSmallPart;
}

void relieve_pressure(usize taken) {
  look_at_group_limit();
  const usize free = purgeable();
  if (free <= kNegligible || !limit_pressure()) return;
  const usize most = 2 * taken;
  purge_all(free - kNegligible < most ? free - kNegligible : most);
}

bool charge_or_purge(usize bytes, usize own) {
  // Twice: what the first time gave back, another thread may have taken, and have given back since.
  for (u32 i = 0; i < 2; ++i) {
    if (charge(bytes)) return true;
    if (!make_room(own)) return false;
  }
  return charge(bytes);
}

}  // namespace coffer
