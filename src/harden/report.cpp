// SPDX-License-Identifier: MIT
#include "harden/report.hpp"

#include <stdlib.h>

#include "os/os.hpp"

namespace coffer::harden {

namespace {

using Line = TextBuffer<256>;

[[noreturn]] void write_and_abort(Line& line) {
  os::write_line(line);
  abort();
}

const char* description(BadPointer what) {
  switch (what) {
    case BadPointer::foreign:
      return "not a block of this allocator";
    case BadPointer::not_a_start:
      return "not the start of a block";
    case BadPointer::already_free:
      return "already free";
    case BadPointer::free_span:
      return "in a span that is free";
    case BadPointer::overrun:
      return "written to behind its end";
  }
  return "unknown";
}

}  // namespace

void bad_pointer(const char* call, const void* address, BadPointer what, usize block_bytes) {
  Line line;
  line.add("coffer: ").add(call).add(" of ").hex(reinterpret_cast<uptr>(address)).add(": ").add(description(what));
  if (block_bytes != 0) line.add(" (size class ").number(block_bytes).add(')');
  write_and_abort(line);
}

void broken_link(const void* block, usize block_bytes) {
  Line line;
  line.add("coffer: free block ").hex(reinterpret_cast<uptr>(block)).add(": written to after it was freed");
  if (block_bytes != 0) line.add(" (size class ").number(block_bytes).add(')');
  write_and_abort(line);
}

void bad_size(const void* block, usize given, usize usable) {
  Line line;
  line.add("coffer: free of ").hex(reinterpret_cast<uptr>(block)).add(": size ").number(given);
  line.add(" was given, the block has ").number(usable);
  write_and_abort(line);
}

}  // namespace coffer::harden
