// A trace as text for other programs. Throws trace::Error, also where the output cannot be written.
#pragma once

#include <string>

#include "trace/reader.hpp"

namespace coffer::analyse {

void export_csv(const std::string& from, const std::string& to);

// For the Perfetto viewer and chrome://tracing: live bytes and blocks and the recorded figures as counters, threads as
// slices, blocks of at least `least` bytes as slices of their lifetimes.
void export_chrome(const std::string& from, const std::string& to, trace::u64 least);

}  // namespace coffer::analyse
