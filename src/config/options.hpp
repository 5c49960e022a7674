// The options of COFFER_CONF, each declared once, here. The struct that Coffer reads, the parser, the printed values
// and the help all come from this table.
#pragma once

#include "base/base.hpp"

namespace coffer::config {

inline constexpr u64 kKiB = u64{1} << 10;
inline constexpr u64 kMiB = u64{1} << 20;
inline constexpr u64 kGiB = u64{1} << 30;
inline constexpr u64 kTiB = u64{1} << 40;

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
// TEXT(name, help)                                empty by default; no comma
#define COFFER_OPTIONS(SIZE, UNSIGNED, CHOICE, BOOLEAN, TEXT)                                                         \
  SIZE(arena, 16 * kTiB, 4 * kMiB, 64 * kTiB, "largest reservation of address space at the start")                    \
  SIZE(slack, 64 * kKiB, 0, kGiB, "free bytes a heap keeps in its spans, beside 1/16 of it")                          \
  CHOICE(empty_fraction, EmptyFraction, EmptyFraction::quarter, "1/2|1/4|1/8|1/16", "free part to reuse a span")     \
  SIZE(span, 32 * kKiB, 32 * kKiB, 256 * kKiB, "least bytes of a span; rounded up to a power of two")                 \
  CHOICE(placement, PlacementPolicy, PlacementPolicy::index, "flat|index", "blocks start at all cache indices")      \
  CHOICE(align, AlignPolicy, AlignPolicy::multiples, "multiples|all", "blocks of 64 bytes and more on lines")     \
  BOOLEAN(colour, true, "spans and large blocks start at different cache indices")                                   \
  SIZE(free_limit, 8 * kMiB, 0, kTiB, "free bytes kept resident, beside what was seen to come back")                  \
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
  BOOLEAN(stats, false, "print malloc_stats when the program ends")                                                   \
  BOOLEAN(confirm, false, "print every option, its value and where that came from")                                   \
  BOOLEAN(strict, false, "abort at an unknown option or a bad value")                                                 \
  BOOLEAN(help, false, "print this table")
// clang-format on

// The values, as Coffer reads them.
struct Options {
#define COFFER_FIELD_SIZE(name, standard, least, greatest, help) usize name = standard;
#define COFFER_FIELD_UNSIGNED(name, standard, least, greatest, help) u32 name = standard;
#define COFFER_FIELD_CHOICE(name, type, standard, words, help) type name = standard;
#define COFFER_FIELD_BOOLEAN(name, standard, help) bool name = standard;
#define COFFER_FIELD_TEXT(name, help) const char* name = nullptr;
  COFFER_OPTIONS(COFFER_FIELD_SIZE, COFFER_FIELD_UNSIGNED, COFFER_FIELD_CHOICE, COFFER_FIELD_BOOLEAN, COFFER_FIELD_TEXT)
#undef COFFER_FIELD_TEXT
#undef COFFER_FIELD_SIZE
#undef COFFER_FIELD_UNSIGNED
#undef COFFER_FIELD_CHOICE
#undef COFFER_FIELD_BOOLEAN
};

enum class Type : u8 { size, unsigned_number, choice, boolean, text };

// One row of the table. Every value travels as a u64: a choice as its place among the words, a boolean as 0 or 1, a
// text as its address, 0 if it is empty.
struct Option {
  const char* name;
  Type type;
  u64 standard;
  u64 least;
  u64 greatest;
  const char* words;
  const char* help;
  u64 (*get)(const Options& options);
  void (*set)(Options& options, u64 value);
};

// Number of words between bars.
constexpr u64 count_words(const char* words) {
  u64 count = 1;
  for (; *words != 0; ++words) count += *words == '|' ? 1 : 0;
  return count;
}

inline constexpr Option kOptions[] = {
#define COFFER_ACCESS(name)                                              \
  [](const Options& options) { return static_cast<u64>(options.name); }, \
      [](Options& options, u64 value) { options.name = static_cast<decltype(options.name)>(value); }
#define COFFER_ROW_SIZE(name, standard, least, greatest, help) \
  {#name, Type::size, standard, least, greatest, "", help, COFFER_ACCESS(name)},
#define COFFER_ROW_UNSIGNED(name, standard, least, greatest, help) \
  {#name, Type::unsigned_number, standard, least, greatest, "", help, COFFER_ACCESS(name)},
#define COFFER_ROW_CHOICE(name, type, standard, words, help) \
  {#name, Type::choice, static_cast<u64>(standard), 0, count_words(words) - 1, words, help, COFFER_ACCESS(name)},
#define COFFER_ROW_BOOLEAN(name, standard, help) \
  {#name, Type::boolean, standard, 0, 1, "false|true", help, COFFER_ACCESS(name)},
#define COFFER_ROW_TEXT(name, help)                                                               \
  {#name,                                                                                         \
   Type::text,                                                                                    \
   0,                                                                                             \
   0,                                                                                             \
   0,                                                                                             \
   "a text",                                                                                      \
   help,                                                                                          \
   [](const Options& options) { return static_cast<u64>(reinterpret_cast<uptr>(options.name)); }, \
   [](Options& options, u64 value) { options.name = reinterpret_cast<const char*>(value); }},
    COFFER_OPTIONS(COFFER_ROW_SIZE, COFFER_ROW_UNSIGNED, COFFER_ROW_CHOICE, COFFER_ROW_BOOLEAN, COFFER_ROW_TEXT)
#undef COFFER_ROW_TEXT
#undef COFFER_ACCESS
#undef COFFER_ROW_SIZE
#undef COFFER_ROW_UNSIGNED
#undef COFFER_ROW_CHOICE
#undef COFFER_ROW_BOOLEAN
};

inline constexpr usize kOptionCount = sizeof kOptions / sizeof kOptions[0];

// Defaults lie in their ranges, so that every value an option can have may be written in COFFER_CONF.
static_assert([] {
  for (const Option& option : kOptions) {
    if (option.least > option.standard || option.standard > option.greatest) return false;
  }
  return true;
}());

}  // namespace coffer::config
