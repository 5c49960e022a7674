// SPDX-License-Identifier: MIT
// Lines of malloc_stats as the shim's own (api/glibc.cpp): "name = number". A name may have more than the 16 columns of
// those; scripts split at "=".
#pragma once

#include "base/text.hpp"

namespace coffer::papers {

inline void add_line(Text& text, const char* name, u64 value) {
  const usize start = text.length();
  text.add(name).pad(start, 16).add(" = ").number(value, 12).add('\n');
}

}  // namespace coffer::papers
