// SPDX-License-Identifier: MIT
// What things take, in cycles of the simulated processor. docs/design/simulation.md says where each figure is from.
#pragma once

#include <cstdint>

namespace simulation {

using u64 = std::uint64_t;
using u32 = std::uint32_t;
using uptr = std::uintptr_t;

struct Costs {
  // An access that hits the core's own cache, with the instructions around it. A malloc and a free of Coffer are 42
  // instructions and some 20 accesses, and take about as many cycles.
  u64 hit = 1;
  u64 change = 18;  // an atomic read-modify-write, beyond the access
  u64 fence = 30;
  u64 pause = 40;

  // A line from elsewhere: near is on the same socket, far on another. David, Guerraoui, Trigonakis (SOSP 2013), table
  // 2, Xeon with its 2.13 GHz.
  u64 read_owned_near = 109, read_owned_far = 289;    // another core has it alone
  u64 read_shared_near = 44, read_shared_far = 223;   // last-level cache
  u64 write_owned_near = 115, write_owned_far = 320;  // and the other core loses it
  u64 write_shared_near = 113, write_shared_far = 312;
  u64 memory = 355;
  u64 directory = 10;  // a read of a line that others have, too: until the next one can ask

  // The kernel.
  u64 system_call = 400;
  u64 map = 2500;    // changes a mapping: alone in the address space meanwhile
  u64 purge = 2000;  // ... and 60 a page
  u64 purge_page = 60;
  u64 fault = 1500;         // the first touch of a page, zeroed
  u64 barrier = 5300;       // membarrier: 2.5 microseconds
  u64 interruption = 1000;  // of each other core, by a barrier or a purge
  u64 thread_start = 30000;
  u64 wake = 2000;  // from a program's barrier
};

struct Shape {
  u32 cores = 1;
  u32 cores_a_socket = 32;
  u32 cache_sets = 2048;  // of each core's own cache; 1 MiB with the ways
};
inline constexpr u32 kMostCores = 128;
inline constexpr u32 kWays = 8;
inline constexpr u64 kLineBytes = 64;
inline constexpr u64 kPageBytes = 4096;

}  // namespace simulation
