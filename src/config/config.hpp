// SPDX-License-Identifier: MIT
// The options of this process.
//
// They are read once, from two places: the string `coffer_conf_string`, which the program may define, and then the
// environment variable COFFER_CONF, which overrides it. A process with raised privileges (setuid) reads only its own
// string. (The papers' allocators read HOARD_CONF and so on; the string is for Coffer.)
#pragma once

#include "config/parse.hpp"
#include "config/table.hpp"

namespace coffer::config {

// Reads the options; the first call does, later ones return at once. May run before any constructor and before libc's
// own start; does not allocate. Says what it could not understand, one line each on stderr: an unknown name once.
void load();

// In the child of a fork: if a thread that the child does not have was reading, the next load() reads.
void forget_reading();

// The values. Defaults before load().
const Options& options();

// The values with their sources.
const Settings& settings();

}  // namespace coffer::config
