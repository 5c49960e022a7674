// SPDX-License-Identifier: MIT
// When pages go back to the kernel.
#pragma once

#include "policy/kept.hpp"

namespace coffer {

// Nanoseconds of a tick, at the end of which goes what was free for all of it; the reclaimer sleeps so long. Chosen by
// programs that rest (docs/design/speed-log.md, One age): with one second a third of the page faults, and 378 MB left
// two seconds after 500 MB were freed.
inline constexpr u64 kTickNs = 500'000'000;
// Ticks that the reclaimer stays for after its chores are done, to see whether the program becomes quiet. Chosen by the
// sweep: with half and with twice no row differs.
inline constexpr u32 kIdleTicks = 4;
// Derived: where no thread can be had it is tried again after so long.
inline constexpr u64 kRetryNs = kIdleTicks * kTickNs;
// Derived: so long is waited, at a limit, for free memory that another thread is giving back at this moment.
inline constexpr u64 kWaitNs = kTickNs / 10;
// Derived: bytes over the limit that may wait, so that small purges share a system call.
inline constexpr usize kFreeBatch = kNegligible;
// Derived: smaller rises of what is held are not worth a store to a line that all threads share.
inline constexpr usize kGrain = kNegligible / 2;
// Chunks that a step of a call looks at, for each chunk that its caller took, and one more. Chosen by the sweep: with
// half and with twice no row differs.
inline constexpr u32 kStepLooks = 16;

// Ticks that a span has been listed for when idle pages in it go: it has lain there for a whole one. A class that is
// alive adopts its spans before, the newest first. Chosen by the sweep: with 1 and 4 no row differs.
inline constexpr u32 kWholeTick = 2;
// Spans that the reclaimer looks at in one step, after which a walk may come between. Chosen by the sweep: with half
// and with twice no row differs.
inline constexpr u32 kSpansAStep = 1024;

// Bytes that a large block shrinks by at least before pages go back. Chosen by the sweep:
// with half and with twice no row differs.
inline constexpr usize kPurgeOnShrink = usize{64} << 10;

// Bytes held and free below which limits of the process's cgroup are not looked for: most processes stay below. Chosen
// by guess: no neighbour was measured.
inline constexpr usize kWorthReading = usize{8} << 20;

}  // namespace coffer
