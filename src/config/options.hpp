// SPDX-License-Identifier: MIT
// The options of COFFER_CONF, each declared once, here. The struct that Coffer reads, the parser, the printed values
// and the help all come from this table (config/table.hpp). Another allocator over the same lower layers has a header
// of its own in this one's place, COFFER_OPTIONS_HEADER: see papers/hoard/options.hpp.
#pragma once

#include "config/units.hpp"

namespace coffer::config {

// The variable that is read, and whether a program may set options by defining `coffer_conf_string`.
inline constexpr char kVariable[] = "COFFER_CONF";
inline constexpr bool kProgramString = true;

// `automatic` is written "auto", which is a keyword here.
enum class MixedPolicy : u8 { automatic, never, always };
enum class HugePolicy : u8 { automatic, never, always };
enum class EmptyFraction : u8 { half, quarter, eighth, sixteenth };
enum class PlacementPolicy : u8 { flat, index };
enum class AlignPolicy : u8 { multiples, all };

// clang-format off
// SIZE(name, default, least, greatest, help)      bytes, written with an optional suffix K, M, G or T
// UNSIGNED(name, default, least, greatest, help)
// CHOICE(name, type, default, words, help)        type: an enum; words: its names in its order, between bars
// BOOLEAN(name, default, help)
// TEXT(name, help)                                empty by default; no comma, no blanks at its ends
#define COFFER_OWN_OPTIONS(SIZE, UNSIGNED, CHOICE, BOOLEAN, TEXT)                                                     \
  SIZE(arena, 16 * kTiB, 4 * kMiB, 64 * kTiB, "largest reservation of address space at the start")                    \
  SIZE(slack, 64 * kKiB, 0, kGiB, "free bytes a heap keeps in its spans, beside a share of all that is held")         \
  CHOICE(empty_fraction, EmptyFraction, EmptyFraction::quarter, "1/2|1/4|1/8|1/16", "free part to reuse a span")     \
  SIZE(span, 32 * kKiB, 32 * kKiB, 256 * kKiB, "least bytes of a span; rounded up to a power of two")                 \
  CHOICE(placement, PlacementPolicy, PlacementPolicy::index, "flat|index", "blocks start at all cache indices")      \
  CHOICE(align, AlignPolicy, AlignPolicy::multiples, "multiples|all", "blocks of 64 bytes and more on lines")     \
  BOOLEAN(colour, true, "spans and large blocks start at different cache indices")                                   \
  SIZE(free_limit, 8 * kMiB, 0, kTiB, "free bytes kept resident, beside what was in use within a second")              \
  CHOICE(huge, HugePolicy, HugePolicy::automatic, "auto|never|always", "huge pages: for dense chunks, none, all")     \
  CHOICE(mixed, MixedPolicy, MixedPolicy::automatic, "auto|never|always", "blocks of any size in holes of spans")     \
  UNSIGNED(shards, 0, 0, 16, "shards of the span pool; 0: by the number of processors")                               \
  BOOLEAN(reclaimer, true, "a passing thread gives memory back when the program is quiet")                            \
  SIZE(limit, 0, 0, 64 * kTiB, "bytes that may be resident at most; past it, ENOMEM; 0: none")                        \
  BOOLEAN(cgroup, true, "give free memory back eagerly near the limits of the process's cgroup")                      \
  BOOLEAN(share, false, "offer a page of figures for `coffer stat` and `coffer top`")                                 \
  UNSIGNED(share_signal, 0, 0, 64, "signal that writes this page anew, or offers it; 0: none")                        \
  BOOLEAN(profile, false, "sample allocations; write a heap profile at the end")                                      \
  SIZE(profile_rate, 512 * kKiB, 1, kTiB, "mean bytes between samples")                                               \
  TEXT(profile_to, "begin of profiles' names: X.PID.N.pb.gz; else coffer")                                            \
  UNSIGNED(profile_signal, 0, 0, 64, "signal that turns sampling on or off; 0: none")                                 \
  UNSIGNED(dump_signal, 0, 0, 64, "signal that has a heap profile written; 0: none")                                  \
  BOOLEAN(leaks, false, "sample allocations; print what is live at the end")                                          \
  SIZE(guard_sample, 0, 0, kTiB, "mean bytes between blocks with guard pages around them; 0: none has")               \
  TEXT(crash_report, "file to which reports of misused guarded blocks are added")
// clang-format on

}  // namespace coffer::config
