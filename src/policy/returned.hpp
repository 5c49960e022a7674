// SPDX-License-Identifier: MIT
// When pages go back to the kernel.
#pragma once

#include "base/base.hpp"

namespace coffer {

// Ticks that a span has been listed for when idle pages in it go: it has lain there for a whole one. A class that is
// alive adopts its spans before, the newest first. Chosen by the sweep: with 1 and 4 no row differs.
inline constexpr u32 kWholeTick = 2;
// Spans that the reclaimer looks at, a waking, so that a step is bounded. Chosen by the sweep: with half and with twice
// no row differs.
inline constexpr u32 kSpansAStep = 1024;

// Bytes that a large block shrinks by at least before pages go back. Chosen by the sweep:
// with half and with twice no row differs.
inline constexpr usize kPurgeOnShrink = usize{64} << 10;

// Bytes held and free below which limits of the process's cgroup are not looked for: most processes stay below. Chosen
// by guess: no neighbour was measured.
inline constexpr usize kWorthReading = usize{8} << 20;

}  // namespace coffer
