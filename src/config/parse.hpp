// SPDX-License-Identifier: MIT
// COFFER_CONF's grammar: "key:value,key:value". Empty items are allowed, and blanks around keys, values and items,
// which are no part of them; the last of several values for one key counts. Nothing here reads the environment or
// writes to stderr; texts that options have are kept for ever.
#pragma once

#include "base/base.hpp"
#include "base/text.hpp"
#include "config/table.hpp"

namespace coffer::config {

// Where a value came from. A later one overrides an earlier one.
enum class Source : u8 { standard, program, environment };

struct Settings {
  Options values;
  Source sources[kOptionCount] = {};
};

// Takes one line of complaint, without its line end.
struct Complaints {
  void (*take)(const Text& line, void* context);
  void* context;
};

// How a source is named in messages.
const char* source_name(Source source);

// The option of that name, or nullptr.
const Option* find_option(const char* name, usize length);

// Reads a value as `option` takes it. false: not of the option's type, or out of its range.
bool parse_value(const Option& option, const char* text, usize length, u64& value);

// Writes a value as parse_value reads it, sizes with the largest suffix that loses nothing.
void print_value(const Option& option, u64 value, Text& text);

// Applies every item of `text`; an item that cannot be understood is reported and changes nothing. false if there was
// one. A name that no option has is reported at its first mention only; each bad value is.
bool parse(const char* text, Source source, Settings& settings, const Complaints& complaints);

// All options as "key:value,key:value".
void print_all(const Options& options, Text& text);

}  // namespace coffer::config
