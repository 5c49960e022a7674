// SPDX-License-Identifier: MIT
// What a command that makes something of a trace says, if the trace was not whole.
#pragma once

#include <cstdio>
#include <string>

#include "trace/reader.hpp"

namespace coffer::analyse {

inline void say_shortfall(const std::string& path, const trace::Reader& reader) {
  const std::string text = reader.file().shortfall();
  if (!text.empty()) std::fprintf(stderr, "%s: %s\n", path.c_str(), text.c_str());
}

}  // namespace coffer::analyse
