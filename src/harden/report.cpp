// SPDX-License-Identifier: MIT
#include "harden/report.hpp"

#include <stdlib.h>

#include "os/os.hpp"

namespace coffer::harden {

namespace {

// A line put together without stdio. Too long a text is cut, never overrun.
class Line {
 public:
  Line& text(const char* part) {
    while (*part != 0 && length_ < sizeof buffer_ - 1) buffer_[length_++] = *part++;
    return *this;
  }
  Line& hex(uptr value) { return text("0x").number(value, 16); }
  Line& decimal(usize value) { return number(value, 10); }
  [[noreturn]] void write_and_abort() {
    buffer_[length_++] = '\n';
    os::write_error(buffer_, length_);
    abort();
  }

 private:
  Line& number(u64 value, u32 base) {
    char digits[24];
    usize count = 0;
    do {
      digits[count++] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    while (count > 0 && length_ < sizeof buffer_ - 1) buffer_[length_++] = digits[--count];
    return *this;
  }

  char buffer_[256];
  usize length_ = 0;
};

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
  }
  return "unknown";
}

}  // namespace

void bad_pointer(const char* call, const void* address, BadPointer what, usize block_bytes) {
  Line line;
  line.text("coffer: ").text(call).text(" of ").hex(reinterpret_cast<uptr>(address)).text(": ").text(description(what));
  if (block_bytes != 0) line.text(" (size class ").decimal(block_bytes).text(")");
  line.write_and_abort();
}

void bad_size(const void* block, usize given, usize usable) {
  Line line;
  line.text("coffer: free of ").hex(reinterpret_cast<uptr>(block)).text(": size ").decimal(given);
  line.text(" was given, the block has ").decimal(usable).write_and_abort();
}

}  // namespace coffer::harden
