// SPDX-License-Identifier: MIT
// A number of blocks with their bytes.
#pragma once

#include "trace/format.hpp"

namespace coffer::analyse {

struct Tally {
  trace::u64 count = 0, bytes = 0;

  void add(trace::u64 size) {
    ++count;
    bytes += size;
  }
  void remove(trace::u64 size) {
    --count;
    bytes -= size;
  }
};

}  // namespace coffer::analyse
