// SPDX-License-Identifier: MIT
// The options of this process.
//
// They are read once, from two places: the string `coffer_conf_string`, which the program may define, and then the
// environment variable COFFER_CONF, which overrides it. A process with raised privileges (setuid) reads only its own
// string. (The papers' allocators read HOARD_CONF and so on; the string is for Coffer.)
#pragma once

#include "base/atomic.hpp"
#include "config/environment.hpp"
#include "config/parse.hpp"
#include "config/table.hpp"

// A program may define it: `const char *coffer_conf_string = "slack:32K";`
extern "C" __attribute__((weak, visibility("default"))) const char* coffer_conf_string;

namespace coffer::config {

// Reads the options; the first call does, later ones return at once. May run before any constructor and before libc's
// own start; does not allocate. Says what it could not understand, one line each on stderr: an unknown name once.
void load();

// Whether load() has anything to read. Inline, and without constants: see is_set.
COFFER_INLINE bool is_said() { return (kProgramString && &coffer_conf_string != nullptr) || is_set<kVariable>(); }

// Whether load() has read.
enum Phase : u32 { kUnread, kReading, kRead };
extern Atomic<u32> g_phase __attribute__((visibility("hidden")));
// acquire: pairs with the release in load.
COFFER_INLINE bool is_read() { return g_phase.load(acquire) == kRead; }

// In the child of a fork: if a thread that the child does not have was reading, the next load() reads.
void forget_reading();

// The values with their sources. Defaults before load().
extern Settings g_settings __attribute__((visibility("hidden")));
inline const Settings& settings() { return g_settings; }
inline const Options& options() { return g_settings.values; }

}  // namespace coffer::config
