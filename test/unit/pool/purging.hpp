// SPDX-License-Identifier: MIT
// What the tests of purges share: slices of a first arena, of which nothing is purged unless a test asks for it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "fresh.hpp"
#include "observe/counters.hpp"
#include "options.hpp"
#include "os/fake/fake.hpp"
#include "pool/age.hpp"
#include "pool/slice_pool.hpp"

namespace coffer::test {

namespace fake = os::fake;

inline constexpr usize kMiB = usize{1} << 20;
inline constexpr usize kPages = 64 * kCarvePage;  // what a call may purge beside twice what was freed

inline usize dirty() { return counters().dirty.load(relaxed); }
inline usize& free_limit_option() { return test::changeable_options().free_limit; }
inline Arena& first_arena() { return g_arenas.arenas[0]; }
inline char* slice_at(u32 slice) { return reinterpret_cast<char*>(first_arena().base + uptr{slice} * kSliceBytes); }

inline void start() {
  free_limit_option() = u64{1} << 40;
  ASSERT_TRUE(arenas_start(512 * kMiB));
  slice_pool_start(1);
}

// Slices [0, slices), written to.
inline void take_and_touch(u32 slices) {
  for (u32 i = 0; i < slices; ++i) {
    ASSERT_EQ(acquire_slices(1, 1, 0).slice, i);
    std::memset(slice_at(i), 7, kSliceBytes);
  }
}

inline void refuse_purges(fake::Damage damage = fake::Damage::none) {
  fake::Faults faults;
  faults.nth = 1;
  faults.kinds = fake::kPurge;
  faults.duration = fake::Duration::from_then_on;
  faults.damage = damage;
  fake::set_faults(faults);
}

}  // namespace coffer::test
