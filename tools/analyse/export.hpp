// SPDX-License-Identifier: MIT
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
//
// With `gaps`, also how long the program works between two calls, for the hardware's bench (hw/doc/bench.md): in cycles
// of its logic's clock, a record of instructions times cycles_per_instruction, else of time times cycles_per_ns. What
// is left of a cycle counts in the next gap; a gap above `longest` is that long.
struct RtOptions {
  bool is_knuth = false;
  trace::u64 heap = 1 << 20;  // a power of two
  bool gaps = false;
  double cycles_per_instruction = 0.5;  // a processor of 400 MHz, an instruction a clock, beside logic of 200 MHz
  double cycles_per_ns = 0.2;
  trace::u64 longest = 20000;
};
std::string export_rt(const std::string& from, const std::string& to, const RtOptions& options);

}  // namespace coffer::analyse
