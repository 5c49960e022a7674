// SPDX-License-Identifier: MIT
// The shape of a cache: bytes a line, sets (one for each index), ways. A TLB is a cache whose lines are pages.
#pragma once

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace coffer::tools {

struct Geometry {
  uint64_t line, sets, ways;

  uint64_t index(uint64_t address) const { return address / line % sets; }
  // Addresses this far apart have the same index (paper 3: the cache page).
  uint64_t page() const { return line * sets; }

  // LINE:SETS:WAYS. Sets need not be a power of two: some TLBs and last-level caches have other numbers.
  static Geometry parse(std::string_view text) {
    Geometry result{};
    uint64_t* const parts[] = {&result.line, &result.sets, &result.ways};
    std::string_view rest = text;
    for (int i = 0; i < 3; ++i) {
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), *parts[i]);
      const bool last = end == rest.data() + rest.size();
      if (error != std::errc{} || *parts[i] == 0 || last != (i == 2) || (!last && *end != ':')) {
        throw std::invalid_argument("not LINE:SETS:WAYS: " + std::string(text));
      }
      if (!last) rest.remove_prefix(static_cast<size_t>(end - rest.data()) + 1);
    }
    if ((result.line & (result.line - 1)) != 0) {
      throw std::invalid_argument("bytes a line must be a power of two: " + std::string(text));
    }
    return result;
  }
};

}  // namespace coffer::tools
