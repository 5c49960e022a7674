// A trace as text for other programs. Throws trace::Error, also where the output cannot be written.
#pragma once

#include <string>

#include "trace/reader.hpp"

namespace coffer::analyse {

void export_csv(const std::string& from, const std::string& to);

// For the Perfetto viewer and chrome://tracing: live bytes and blocks and the recorded figures as counters, threads as
// slices, blocks of at least `least` bytes as slices of their lifetimes.
void export_chrome(const std::string& from, const std::string& to, trace::u64 least);

// Vectors for coffer-rt's in-band policies and the hardware (rt/vectors/README.md): the trace's calls in order, with
// the answers of a heap of that many bytes. A realloc is an allocation and a free of the old block, as in a C library
// that always moves. Returns what was done as JSON.
struct RtOptions {
  bool is_knuth = false;
  trace::u64 heap = 1 << 20;  // a power of two
};
std::string export_rt(const std::string& from, const std::string& to, const RtOptions& options);

}  // namespace coffer::analyse
