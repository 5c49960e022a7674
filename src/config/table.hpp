// SPDX-License-Identifier: MIT
// What is made of the table of options: the struct of values, and a row for each that parser and help walk.
//
// The table itself is the header COFFER_OPTIONS_HEADER: COFFER_OWN_OPTIONS (its rows), the enums that they name,
// kVariable and kProgramString. Coffer's is config/options.hpp.
#pragma once

#include "base/base.hpp"
#ifdef COFFER_OPTIONS_HEADER
#include COFFER_OPTIONS_HEADER
#else
#include "config/options.hpp"
#endif

namespace coffer::config {

// clang-format off
// Those that every allocator has.
#define COFFER_OPTIONS(SIZE, UNSIGNED, CHOICE, BOOLEAN, TEXT)                                                         \
  COFFER_OWN_OPTIONS(SIZE, UNSIGNED, CHOICE, BOOLEAN, TEXT)                                                           \
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

// Defaults lie in their ranges, so that every value an option can have may be written in the variable.
static_assert([] {
  for (const Option& option : kOptions) {
    if (option.least > option.standard || option.standard > option.greatest) return false;
  }
  return true;
}());

}  // namespace coffer::config
